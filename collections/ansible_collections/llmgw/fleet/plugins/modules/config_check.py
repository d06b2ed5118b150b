#!/usr/bin/python

# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks a settings file of llmgw, and names every mistake in it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: config_check
short_description: Checks a settings file of llmgw
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Reads a file as C(llmgw server), C(llmgw agent) or C(llmgw gateway) would at its start, and
    starts nothing.
  - All mistakes are named at once, each with its place in the file and what would be right.
  - A template can check itself with C(validate=llmgw config check %s).
options:
  path:
    description: The file to check.
    type: path
    required: true
    aliases:
      - file
  role:
    description:
      - Whose settings these are.
      - Unset means to tell by their keys.
    type: str
    choices:
      - agent
      - gateway
      - server
  environment_file:
    description:
      - File with the variables that the service will have, such as C(LLMGW_LOG__LEVEL=debug).
        They win over the settings.
      - It is read on the machine, so that no secret in it travels. A file that is not there says
        nothing, as for systemd with C(EnvironmentFile=-).
    type: path
  fail_on_mistakes:
    description: Whether a mistake fails the task; else it is only returned.
    type: bool
    default: true
  timeout_s:
    description: How long the check may take.
    type: float
    default: 60.0
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
- name: The settings of the control plane have no mistakes
  llmgw.fleet.config_check:
    path: /etc/llmgw/server.yaml
    role: server
    environment_file: /etc/llmgw/server.env
  become: true
"""

RETURN = r"""
ok:
  description: Whether a start would read the file without a complaint.
  returned: when the file could be checked
  type: bool
  sample: true
problems:
  description: Every mistake.
  returned: when the file could be checked
  type: list
  elements: dict
  contains:
    path:
      description: Place in the file.
      type: str
    message:
      description: What is wrong, and what would be right.
      type: str
  sample: []
role:
  description: Whose settings these were taken for.
  returned: when the file could be checked
  type: str
  sample: server
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmgw.fleet.plugins.module_utils import _argspec
from ansible_collections.llmgw.fleet.plugins.module_utils._cli import Cli, CliFailed

HAS_MISTAKES = 2


def main() -> None:
    """Check, and name what is wrong."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True, "aliases": ["file"]},
            "role": {"type": "str", "choices": ["agent", "gateway", "server"]},
            "environment_file": {"type": "path"},
            "fail_on_mistakes": {"type": "bool", "default": True},
            **_argspec.runtime(),
        },
        supports_check_mode=True,
    )
    try:
        found = _checked(module.params)
    except CliFailed as error:
        module.fail_json(msg=error.message, meaning=error.meaning, rc=error.rc)
    if found["problems"] and module.params["fail_on_mistakes"]:
        module.fail_json(msg=_sentence(module.params["path"], found["problems"]), **found)
    module.exit_json(changed=False, **found)


def _checked(params: dict[str, Any]) -> dict[str, Any]:
    cli = Cli(
        executable=params["executable"],
        timeout_s=params["timeout_s"],
        environ=tuple(_variables(params["environment_file"])),
    )
    role = ["--role", params["role"]] if params["role"] else []
    words = ["config", "check", *role, "--json", "--", params["path"]]
    document = cli.ask(words, allowed=(0, HAS_MISTAKES)).document
    return {key: document.get(key) for key in ("ok", "problems", "role")}


def _variables(path: str | None) -> Iterator[tuple[str, str]]:
    """The lines of an environment file as systemd reads them, for one line a variable."""
    try:
        text = Path(path).read_text(encoding="utf-8") if path else ""
    except FileNotFoundError:
        return
    except (OSError, UnicodeError) as error:
        raise CliFailed(f"{path} cannot be read: {error}") from error
    for line in map(str.strip, text.splitlines()):
        name, separator, value = line.partition("=")
        if separator and not line.startswith(("#", ";")):
            value = value.strip()
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            yield name.strip(), value[1:-1] if is_quoted else value


def _sentence(path: str, problems: list[dict[str, Any]]) -> str:
    lines = [f"{p.get('path')}: {p.get('message')}".removeprefix(": ") for p in problems]
    count = f"{len(lines)} mistake{'s' if len(lines) > 1 else ''}"
    return f"{path} has {count}: {'; '.join(lines)}"


if __name__ == "__main__":
    main()
