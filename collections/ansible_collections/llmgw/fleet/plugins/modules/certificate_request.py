#!/usr/bin/python

# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Makes the key of a machine and a request for its certificate, where it needs one."""

from __future__ import annotations

DOCUMENTATION = r"""
module: certificate_request
short_description: The key of a machine, and a request for its certificate
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Judges the certificate that a machine has, and asks for a new one when it does not do.
  - The key is made on the machine, readable to its owner only, and never leaves it. What travels is
    RV(csr), which M(llmgw.fleet.certificate) signs on the machine of the authority.
  - A certificate does when the authority signed it, its name, hosts and purpose are right, the key
    belongs to it and more than O(renew_days) days are left.
  - A server keeps the hosts that its certificate names already, unless O(exact_hosts) is true. The
    certificate of a foreign authority is somebody's choice; a server's is kept, and said so by
    RV(foreign).
options:
  name:
    description:
      - Name of the machine, which the certificate will have.
      - It is that of the node where O(usage=client).
    type: str
    required: true
  usage:
    description: What the certificate is for.
    type: str
    choices:
      - client
      - server
    default: client
  hosts:
    description: Other names and addresses by which a server is dialled.
    type: list
    elements: str
    default: []
  path:
    description: Where the certificate is, or will be.
    type: path
    required: true
  key_path:
    description: Where the key is; it is made when there is none.
    type: path
    required: true
  ca_path:
    description: Where the certificate of the authority is, or will be.
    type: path
    required: true
  ca_sha256:
    description: Fingerprint of the one authority that may be believed here.
    type: str
  renew_days:
    description: A new certificate is asked for when less time is left.
    type: int
    default: 30
  force:
    description: Ask for a new certificate in any case.
    type: bool
    default: false
  exact_hosts:
    description: Drop the hosts of the present certificate that O(hosts) does not name.
    type: bool
    default: false
  timeout_s:
    description: How long it may take.
    type: float
    default: 60.0
extends_documentation_fragment:
  - llmgw.fleet.runtime
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
    details: Where llmgw is not installed yet, a run would make a key and ask for a certificate.
  diff_mode:
    support: full
  platform:
    platforms: posix
seealso:
  - module: llmgw.fleet.certificate
"""

EXAMPLES = r"""
- name: The node has a key, and asks for a certificate if it needs one
  llmgw.fleet.certificate_request:
    name: node05
    path: /etc/llmgw/agent.pem
    key_path: /etc/llmgw/agent-key.pem
    ca_path: /etc/llmgw/ca.pem
  become: true
  register: asked

- name: The authority signs it
  llmgw.fleet.certificate:
    name: node05
    csr: "{{ asked.csr }}"
    needed: "{{ asked.needed }}"
    ca_dir: /etc/llmgw/pki
  become: true
  delegate_to: "{{ groups.ca_host | first }}"
  register: signed

- name: The certificate comes back
  ansible.builtin.copy:
    content: "{{ signed.certificate }}"
    dest: /etc/llmgw/agent.pem
    mode: "0644"
  become: true
  when: signed.certificate is not none
"""

RETURN = r"""
needed:
  description: Whether a new certificate is needed.
  returned: success
  type: bool
  sample: true
csr:
  description:
    - The request in PEM form, for M(llmgw.fleet.certificate).
    - It is null when none is needed, and in check mode where there is no key yet.
  returned: success
  type: str
key_created:
  description: Whether the key was made now.
  returned: success
  type: bool
  sample: true
reasons:
  description: Why a new certificate is needed, a sentence each.
  returned: success
  type: list
  elements: str
  sample:
    - "/etc/llmgw/agent.pem: no such file"
hosts:
  description: The names and addresses that the next certificate will have.
  returned: success
  type: list
  elements: str
  sample:
    - node05
foreign:
  description: Whether the present certificate is of another authority.
  returned: success
  type: bool
  sample: false
present:
  description: What the present certificate says; null where there is none.
  returned: success
  type: dict
  contains:
    subject:
      description: Its name.
      type: str
    issuer:
      description: Name of the authority.
      type: str
    serial:
      description: Its number, in hexadecimal digits.
      type: str
    not_before_at:
      description: When it begins to be valid.
      type: str
    not_after_at:
      description: When it ends.
      type: str
    hosts:
      description: Names and addresses.
      type: list
      elements: str
    fingerprint:
      description: Its SHA-256.
      type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmgw.fleet.plugins.module_utils import _argspec, _diff
from ansible_collections.llmgw.fleet.plugins.module_utils._cli import CliFailed

_SHOWN = ("subject", "issuer", "serial", "not_after_at", "hosts")


def main() -> None:
    """Judge, and ask where it is needed."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "usage": {"type": "str", "choices": ["client", "server"], "default": "client"},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "path": {"type": "path", "required": True},
            "key_path": {"type": "path", "required": True, "no_log": False},
            "ca_path": {"type": "path", "required": True},
            "ca_sha256": {"type": "str"},
            "renew_days": {"type": "int", "default": 30},
            "force": {"type": "bool", "default": False},
            "exact_hosts": {"type": "bool", "default": False},
            **_argspec.runtime(),
        },
        supports_check_mode=True,
    )
    try:
        words = _words(module.params, is_check=module.check_mode)
        verdict = _argspec.cli(module.params).ask(words).document
    except CliFailed as error:
        if not (module.check_mode and error.is_missing):
            module.fail_json(msg=error.message, meaning=error.meaning, rc=error.rc)
        verdict = _not_installed(module.params, error.message)
    module.exit_json(**_result(verdict))


def _words(params: dict[str, Any], *, is_check: bool) -> list[str]:
    words = ["ctl", "cert", "request", "--json", "--usage", params["usage"]]
    words += ["--cert", params["path"], "--key", params["key_path"], "--ca", params["ca_path"]]
    words += ["--renew-days", str(params["renew_days"])]
    for host in params["hosts"]:
        words += ["--host", host]
    if params["ca_sha256"]:
        words += ["--ca-sha256", params["ca_sha256"]]
    flags = {
        "--force": params["force"],
        "--exact-hosts": params["exact_hosts"],
        "--check": is_check,
    }
    return [*words, *(flag for flag, is_on in flags.items() if is_on), "--", params["name"]]


def _not_installed(params: dict[str, Any], reason: str) -> dict[str, Any]:
    """What a run will say once llmgw is there, as far as it can be known before."""
    hosts = [params["name"], *params["hosts"]]
    return {"key_created": True, "keep": False, "reasons": [reason], "hosts": hosts}


def _result(verdict: dict[str, Any]) -> dict[str, Any]:
    present = verdict.get("certificate")
    has_new_key = bool(verdict.get("key_created"))
    needed = not verdict.get("keep")
    before = {
        "key": "absent" if has_new_key else "present",
        "certificate": {key: present.get(key) for key in _SHOWN} if present else "absent",
    }
    after = dict(before, key="present")
    if needed:
        after["certificate"] = {"hosts": verdict.get("hosts"), "requested": verdict.get("reasons")}
    return {
        "changed": has_new_key,
        "needed": needed,
        "csr": verdict.get("csr"),
        "key_created": has_new_key,
        "reasons": verdict.get("reasons") or [],
        "hosts": verdict.get("hosts") or [],
        "foreign": bool(verdict.get("foreign")),
        "present": present,
        "diff": _diff.change(before, after),
    }


if __name__ == "__main__":
    main()
