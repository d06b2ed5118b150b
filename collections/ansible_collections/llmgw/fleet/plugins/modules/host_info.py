#!/usr/bin/python

# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Shows whether a host can take llmgw, and everything that stands in the way."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Whether a host can take llmgw
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Looks at a host before anything on it is changed.
  - What stands in the way is no failure of the module; it is listed in RV(problems), so that a
    playbook can show the problems of many hosts in one message.
options:
  name:
    description: How the sentences call the host.
    type: str
    required: true
  python:
    description: A Python that llmgw has to live in; unset takes the newest that is found.
    type: str
    default: ""
  space:
    description: Folders that have to have room.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The folder; it need not be there yet.
        type: path
        required: true
      bytes:
        description: What has to be free there.
        type: int
        required: true
  ports:
    description: TCP ports that have to be free, or held by O(service).
    type: list
    elements: dict
    default: []
    suboptions:
      port:
        description: The port.
        type: int
        required: true
      use:
        description: Who or what will use it.
        type: str
        required: true
  service:
    description: A service that may hold these ports already.
    type: str
    default: ""
  reach:
    description:
      - Where the host has to get a connection to, as V(https://HOST:PORT) or V(HOST:PORT).
    type: list
    elements: str
    default: []
  reach_timeout_s:
    description: The longest wait for one connection.
    type: float
    default: 5.0
  now:
    description: The time of the controller in seconds since 1970; unset compares no clocks.
    type: float
  clock_tolerance_s:
    description: How far the two clocks may be apart.
    type: float
    default: 30.0
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
notes:
  - Nothing beyond Python's standard library is needed where the task runs.
"""

EXAMPLES = r"""
- name: The host is looked at
  llmgw.fleet.host_info:
    name: node05
    space:
      - path: /opt/llmgw
        bytes: 10737418240
    reach:
      - https://10.0.0.1:7443
    now: "{{ now().timestamp() }}"
  become: true
  register: look
"""

RETURN = r"""
problems:
  description: Everything that stands in the way, as sentences that say what to do.
  returned: success
  type: list
  elements: str
  sample:
    - "node05: /opt/llmgw has 0.9 GiB free and 10 GiB are needed: make room, or grow the disk"
python:
  description: The Python that llmgw will live in; null when there is none.
  returned: success
  type: dict
  contains:
    path:
      description: Where it is.
      type: str
    version:
      description: Its version, without the last number.
      type: str
  sample:
    path: /usr/bin/python3
    version: "3.12"
"""

import platform
import time
from collections.abc import Iterator
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmgw.fleet.plugins.module_utils import _host_look

_GIB = 1024**3
_MACHINES = ("x86_64", "aarch64")
_AGENT_PORT = 7443


def main() -> None:
    """Look, and say."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "python": {"type": "str", "default": ""},
            "space": _rows(path="path", bytes="int"),
            "ports": _rows(port="int", use="str"),
            "service": {"type": "str", "default": ""},
            "reach": {"type": "list", "elements": "str", "default": []},
            "reach_timeout_s": {"type": "float", "default": 5.0},
            "now": {"type": "float"},
            "clock_tolerance_s": {"type": "float", "default": 30.0},
        },
        supports_check_mode=True,
    )
    asked = module.params
    python = _host_look.newest_python([asked["python"]] if asked["python"] else _host_look.PYTHONS)
    problems = [f"{asked['name']}: {problem}" for problem in _problems(asked, python)]
    module.exit_json(
        changed=False,
        problems=problems,
        python={"path": python.path, "version": python.version} if python else None,
    )


def _rows(**types: str) -> dict[str, Any]:
    options = {name: {"type": kind, "required": True} for name, kind in types.items()}
    return {"type": "list", "elements": "dict", "default": [], "options": options}


def _problems(asked: dict[str, Any], python: _host_look.Python | None) -> Iterator[str]:
    if not _host_look.has_systemd():
        yield "systemd does not run it, and llmgw's services are its: take another system"
    if platform.machine() not in _MACHINES:
        yield f"there is no llmgw for {platform.machine()}, only for {' and '.join(_MACHINES)}"
    if python is None:
        tried = asked["python"] or ", ".join(_host_look.PYTHONS)
        yield (
            f"no Python 3.11 or newer with its standard library (tried {tried}): install one from "
            "the system's packages (Debian: python3; RHEL 9: python3.12; Ubuntu 22.04: python3.11)"
        )
    if not _host_look.knows_itself():
        yield f"its own name {platform.node()} has no address: put it into /etc/hosts"
    yield from _narrow(asked["space"])
    yield from _taken(asked["ports"], service=asked["service"])
    yield from _unreachable(asked["reach"], timeout_s=asked["reach_timeout_s"])
    yield from _skewed(asked["now"], tolerance_s=asked["clock_tolerance_s"])


def _narrow(space: list[dict[str, Any]]) -> Iterator[str]:
    for row in space:
        free = _host_look.free_bytes(row["path"])
        if free < row["bytes"]:
            yield (
                f"{row['path']} has {free / _GIB:.1f} GiB free and {row['bytes'] / _GIB:g} GiB "
                "are needed: make room, or grow the disk"
            )


def _taken(ports: list[dict[str, Any]], *, service: str) -> Iterator[str]:
    for row in ports:
        holder = _host_look.holder_of(row["port"])
        if holder not in {None, service}:
            yield (
                f"port {row['port']}, for {row['use']}, is held by {holder}: stop it, or choose "
                "another port"
            )


def _unreachable(targets: list[str], *, timeout_s: float) -> Iterator[str]:
    for target in targets:
        host, _colon, port = target.rpartition("://")[2].strip("/").rpartition(":")
        host, port = (host, port) if host and port.isdigit() else (f"{host}{port}", _AGENT_PORT)
        reason = _host_look.unreachable_reason(host.strip("[]"), int(port), timeout_s=timeout_s)
        if reason:
            yield (
                f"it gets no connection to {target} ({reason}): open the way from here to there, "
                "and see that the control plane runs"
            )


def _skewed(now: float | None, *, tolerance_s: float) -> Iterator[str]:
    skew_s = 0 if now is None else time.time() - now
    if abs(skew_s) > tolerance_s:
        where = "ahead of" if skew_s > 0 else "behind"
        yield (
            f"its clock is {abs(skew_s):.0f} s {where} the controller's: certificates need a clock "
            "that is right; see that a time service runs"
        )


if __name__ == "__main__":
    main()
