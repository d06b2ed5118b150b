#!/usr/bin/python

# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Signs a request for a certificate, on the machine of the authority."""

from __future__ import annotations

DOCUMENTATION = r"""
module: certificate
short_description: Signs a request for a certificate
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Runs on the machine of the authority and signs what M(llmgw.fleet.certificate_request) asks for.
  - The request must be for O(name). A client gets its name and nothing else. No key is read but the
    authority's own, by llmgw.
  - A copy of each certificate is kept beside the authority. The same request is signed once. As
    long as the copy is good it is the answer.
  - The task ends before anything is signed when another machine holds a living certificate of the
    same name.
options:
  name:
    description: Whom the certificate must be for.
    type: str
    required: true
  csr:
    description: The request in PEM form. Required where O(needed) is true, but for check mode.
    type: str
  needed:
    description: Whether a certificate is needed; if not, nothing is done.
    type: bool
    default: true
  usage:
    description: What the certificate is for.
    type: str
    choices:
      - client
      - server
    default: client
  hosts:
    description: Names and addresses that a server gets beside those that it asks for.
    type: list
    elements: str
    default: []
  ca_dir:
    description: Folder of the authority.
    type: path
    default: /etc/llmgw/pki
  path:
    description:
      - Where the copy is kept.
      - Unset means C(issued/NAME-USAGE.pem) in O(ca_dir).
    type: path
  days:
    description:
      - How long the certificate is valid.
      - Unset means 90 days for a client and 365 for a server.
    type: int
  renew_days:
    description: A copy with less time left is no answer to the same request any more.
    type: int
    default: 30
  address:
    description: Address of the machine that asks; guards against two machines of one name.
    type: str
  moved:
    description: The name has moved to O(address) on purpose.
    type: bool
    default: false
  allow_reserved:
    description: Let a client have a name that no node may have, such as V(control-plane).
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
    details: The request is checked as in a run, and nothing is kept of it.
  diff_mode:
    support: full
  platform:
    platforms: posix
seealso:
  - module: llmgw.fleet.certificate_request
"""

EXAMPLES = r"""
- name: The authority signs what the node asks for
  llmgw.fleet.certificate:
    name: node05
    csr: "{{ asked.csr }}"
    needed: "{{ asked.needed }}"
    address: "{{ ansible_host }}"
  become: true
  delegate_to: "{{ groups.ca_host | first }}"
  register: signed
"""

RETURN = r"""
certificate:
  description: The certificate in PEM form; null when none was needed, and in check mode.
  returned: success
  type: str
ca:
  description: Certificate of the authority in PEM form; null like RV(certificate).
  returned: success
  type: str
ca_sha256:
  description: Fingerprint of the authority's certificate.
  returned: when a certificate was needed and the authority could be asked
  type: str
facts:
  description: What the certificate says.
  returned: when a certificate was needed and the authority could be asked
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
    usages:
      description: What it is for.
      type: list
      elements: str
    hosts:
      description: Names and addresses.
      type: list
      elements: str
    fingerprint:
      description: Its SHA-256.
      type: str
kept_at:
  description: Where the copy is kept.
  returned: when a certificate was needed
  type: str
  sample: /etc/llmgw/pki/issued/node05-client.pem
"""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmgw.fleet.plugins.module_utils import _argspec, _diff
from ansible_collections.llmgw.fleet.plugins.module_utils._cli import CHECK_SAID_NO, Cli, CliFailed

_SHOWN = ("subject", "serial", "not_after_at", "usages", "hosts")
_MARK = "# For the request with the SHA-256 "
_MAX_BYTES = 1024 * 1024
_NOTHING = {"certificate": None, "ca": None}


def main() -> None:
    """Sign, unless none is needed or the same request was signed before."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "csr": {"type": "str"},
            "needed": {"type": "bool", "default": True},
            "usage": {"type": "str", "choices": ["client", "server"], "default": "client"},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "ca_dir": {"type": "path", "default": "/etc/llmgw/pki"},
            "path": {"type": "path"},
            "days": {"type": "int"},
            "renew_days": {"type": "int", "default": 30},
            "address": {"type": "str"},
            "moved": {"type": "bool", "default": False},
            "allow_reserved": {"type": "bool", "default": False},
            **_argspec.runtime(),
        },
        supports_check_mode=True,
    )
    params = module.params
    if not params["needed"]:
        module.exit_json(changed=False, **_NOTHING)
    params["path"] = params["path"] or _usual_path(params)
    if not params["csr"]:
        if not module.check_mode:
            module.fail_json(msg=f"there is no request of {params['name']!r} to be signed")
        module.exit_json(changed=True, kept_at=params["path"], **_NOTHING)
    try:
        module.exit_json(kept_at=params["path"], **_issued(module, _argspec.cli(params)))
    except CliFailed as error:
        if not (module.check_mode and error.is_missing):
            module.fail_json(msg=error.message, meaning=error.meaning, rc=error.rc)
    module.exit_json(changed=True, kept_at=params["path"], **_NOTHING)


def _usual_path(params: dict[str, Any]) -> str:
    return str(Path(params["ca_dir"], "issued", f"{params['name']}-{params['usage']}.pem"))


def _issued(module: AnsibleModule, cli: Cli) -> dict[str, Any]:
    params = module.params
    copy, kept = _read(Path(params["path"])), _inspected(cli, params)
    if _answers(params, copy, kept):
        return {
            "changed": False,
            "certificate": copy.partition("\n")[2],
            "ca": _read(_ca(params)),
            "ca_sha256": kept.get("issuer_fingerprint"),
            "facts": kept,
        }
    signed = cli.ask(_words(params, is_check=module.check_mode), stdin=params["csr"]).document
    issued = {"certificate": signed.pop("certificate_pem"), "ca": signed.pop("ca_pem")}
    if module.check_mode:
        issued = _NOTHING
    else:
        _keep(module, f"{_MARK}{_digest(params['csr'])}\n{issued['certificate']}")
    return {
        "changed": True,
        **issued,
        "ca_sha256": signed.pop("ca_sha256"),
        "facts": signed,
        "diff": _diff.change(_shown(kept), _shown(signed)),
    }


def _answers(params: dict[str, Any], copy: str, kept: dict[str, Any]) -> bool:
    """Whether the copy is what signing the same request again would give."""
    return (
        bool(kept.get("ok"))
        and copy.startswith(f"{_MARK}{_digest(params['csr'])}\n")
        and params["usage"] in kept.get("usages", ())
        and kept.get("days_left", 0) >= params["renew_days"]
        and set(params["hosts"]) <= set(kept.get("hosts", ()))
    )


def _inspected(cli: Cli, params: dict[str, Any]) -> dict[str, Any]:
    """What the copy says; nothing when there is none that can be read."""
    words = ["ctl", "cert", "inspect", "--json", "--ca", str(_ca(params)), "--", params["path"]]
    try:
        return cli.ask(words, allowed=(0, CHECK_SAID_NO)).document
    except CliFailed as error:
        if error.is_missing:
            raise
        return {}


def _words(params: dict[str, Any], *, is_check: bool) -> list[str]:
    words = ["ctl", "cert", "sign", "--json", "--csr", "-", "--name", params["name"]]
    words += ["--usage", params["usage"], "--dir", params["ca_dir"]]
    for host in params["hosts"]:
        words += ["--host", host]
    if params["days"]:
        words += ["--days", str(params["days"])]
    if params["address"]:
        words += ["--address", params["address"]]
    flags = {
        "--moved": params["moved"],
        "--allow-reserved": params["allow_reserved"],
        "--check": is_check,
    }
    return [*words, *(flag for flag, is_on in flags.items() if is_on)]


def _keep(module: AnsibleModule, text: str) -> None:
    """Put the copy in its place whole, or not at all."""
    path = Path(module.params["path"])
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    module.atomic_move(part, str(path))
    module.set_mode_if_different(str(path), "0644", changed=False)


def _ca(params: dict[str, Any]) -> Path:
    return Path(params["ca_dir"], "ca.pem")


def _read(path: Path) -> str:
    with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_MAX_BYTES)
    return ""


def _digest(csr: str) -> str:
    return hashlib.sha256(csr.strip().encode()).hexdigest()


def _shown(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: facts[key] for key in _SHOWN if key in facts}


if __name__ == "__main__":
    main()
