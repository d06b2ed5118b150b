#!/usr/bin/python

# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Shows whether the agent port of a control plane is what agents will believe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: agent_port_info
short_description: Whether agents will believe an agent port
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Dials the agent port under every name of the server's certificate, and checks what it shows
    against the authority, as an agent would.
  - Dials it once without a certificate of its own, which has to be refused.
  - What is wrong is no failure of the module; it is listed in RV(problems).
options:
  host:
    description: Address that is dialled, whatever the name.
    type: str
    default: 127.0.0.1
  port:
    description: The agent port.
    type: int
    default: 7443
  cert_path:
    description: The server's certificate; its names are the ones that are tried.
    type: path
    default: /etc/llmgw/server.pem
  ca_path:
    description: Certificate of the authority.
    type: path
    default: /etc/llmgw/ca.pem
  timeout_s:
    description: The longest wait for one answer.
    type: float
    default: 10.0
extends_documentation_fragment:
  - llmgw.fleet.runtime
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
"""

EXAMPLES = r"""
- name: The agent port is tried
  llmgw.fleet.agent_port_info:
  become: true
  register: tried
  failed_when: tried.problems | length > 0
"""

RETURN = r"""
names:
  description: The names and addresses that were tried.
  returned: success
  type: list
  elements: str
  sample: [10.0.0.1, control01, localhost]
problems:
  description: What is wrong, as sentences that say what to do.
  returned: success
  type: list
  elements: str
  sample: []
"""

import socket
import ssl
from collections.abc import Iterator
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmgw.fleet.plugins.module_utils import _argspec
from ansible_collections.llmgw.fleet.plugins.module_utils._cli import CHECK_SAID_NO, CliFailed

_SHAKES_HANDS_AS = ["h2"]
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def main() -> None:
    """Dial, and say."""
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "default": "127.0.0.1"},
            "port": {"type": "int", "default": 7443},
            "cert_path": {"type": "path", "default": "/etc/llmgw/server.pem"},
            "ca_path": {"type": "path", "default": "/etc/llmgw/ca.pem"},
            **_argspec.runtime(timeout_s=10),
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        names = _names(asked)
        context = ssl.create_default_context(cafile=asked["ca_path"])
    except (CliFailed, OSError) as error:
        module.fail_json(msg=str(error))
    context.set_alpn_protocols(_SHAKES_HANDS_AS)
    problems = [problem for name in names for problem in _disbelief(asked, context, name)]
    if not problems:
        problems = list(_openness(asked, context, names[0]))
    module.exit_json(changed=False, names=names, problems=problems)


def _names(asked: dict[str, Any]) -> list[str]:
    words = ["ctl", "cert", "inspect", "--json", "--", asked["cert_path"]]
    facts = _argspec.cli(asked).ask(words, allowed=(0, CHECK_SAID_NO)).document
    return sorted(facts["hosts"])


def _disbelief(asked: dict[str, Any], context: ssl.SSLContext, name: str) -> Iterator[str]:
    """Why an agent that dials this name would not believe the port."""
    try:
        with _dialled(asked) as plain, context.wrap_socket(plain, server_hostname=name):
            pass
    except OSError as error:
        yield (
            f"an agent that dials {name} would not believe port {asked['port']}: {error}; see "
            f"'llmgw ctl cert inspect --ca {asked['ca_path']} {asked['cert_path']}'"
        )


def _openness(asked: dict[str, Any], context: ssl.SSLContext, name: str) -> Iterator[str]:
    """Who shows no certificate learns it with the first bytes after the handshake."""
    try:
        with _dialled(asked) as plain, context.wrap_socket(plain, server_hostname=name) as shown:
            shown.sendall(_PREFACE)
            answer = shown.recv(1)
    except TimeoutError:
        answer = b""
    except OSError:
        return
    if answer:
        yield (
            f"port {asked['port']} talks to a client without a certificate: agent_tls of the "
            "server's settings has to name ca, cert and key"
        )


def _dialled(asked: dict[str, Any]) -> socket.socket:
    return socket.create_connection((asked["host"], asked["port"]), timeout=asked["timeout_s"])


if __name__ == "__main__":
    main()
