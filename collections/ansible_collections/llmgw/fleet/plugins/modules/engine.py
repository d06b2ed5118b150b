#!/usr/bin/python

# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Installs an engine on a node, or looks whether it runs there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine
short_description: An engine on a node
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Lets the installed llmgw put an engine on the machine, which chooses the build, checks every
    digest, installs missing packages of the system and sees the engine run.
  - An engine that is installed already is only seen to run, without any network.
  - What runs on the node goes on with the build that it was started from.
options:
  name:
    description: The engine.
    type: str
    required: true
    choices:
      - llamacpp
      - sglang
      - vllm
  version:
    description:
      - Exactly which release, such as V(b10991).
      - Required where O(state=present). Unset with O(state=checked) means the one in use.
    type: str
  state:
    description:
      - V(present) installs the engine unless it is there.
      - V(checked) looks whether it can run, and changes nothing.
    type: str
    choices:
      - checked
      - present
    default: present
  dir:
    description: Folder of the engines.
    type: path
    default: /opt/llmgw/engines
  sources:
    description:
      - Where releases come from, tried in this order.
      - A source is V(bundle=DIR), V(mirror=URL), V(github) or V(github=URL).
    type: list
    elements: str
    default:
      - github
  digests:
    description: SHA-256 by name of a file, which it must have whatever its source says.
    type: dict
    default: {}
  packages:
    description: Whether missing packages of the system are installed; else they are a failure.
    type: bool
    default: true
  activate:
    description: Whether the build is used from now on; else it only lies beside the one in use.
    type: bool
    default: true
  keep:
    description: How many builds stay. One in use always does.
    type: int
    default: 2
  fatal:
    description: Whether the task fails when the engine cannot run here; else it only says so.
    type: bool
    default: true
  timeout_s:
    description: How long it may take, downloads and waits for other package commands included.
    type: float
    default: 3600.0
extends_documentation_fragment:
  - llmgw.fleet.runtime
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  platform:
    platforms: posix
"""

EXAMPLES = r"""
- name: The node has llama.cpp
  llmgw.fleet.engine:
    name: llamacpp
    version: b10991
  become: true

- name: The engine in use can run
  llmgw.fleet.engine:
    name: llamacpp
    state: checked
  become: true
"""

RETURN = r"""
state:
  description:
    - C(ready), C(failed) or C(unsupported).
    - In check mode C(wanted), for one that would be installed.
  returned: when the engine could be looked at
  type: str
  sample: ready
version:
  description: Its release.
  returned: when the engine could be looked at
  type: str
  sample: b10991
variant:
  description: Which build of it.
  returned: when the engine could be looked at
  type: str
  sample: cpu
detail:
  description: What the engine says of itself, or why it cannot run.
  returned: when the engine could be looked at
  type: str
  sample: "version: 10991 (abc)"
warning:
  description: What is wrong with the machine for this engine; empty where nothing is.
  returned: when the engine could be looked at
  type: str
  sample: ""
binary:
  description: Its program; null where it is not ready.
  returned: when the engine could be looked at
  type: str
  sample: /opt/llmgw/engines/llamacpp/b10991-cpu/llama-server
folder:
  description: The folder of the build; null where there is none.
  returned: when the engine could be looked at
  type: str
  sample: /opt/llmgw/engines/llamacpp/b10991-cpu
missing_packages:
  description: Packages of the system that were missing and could not be, or would be, installed.
  returned: when the engine could be looked at
  type: list
  elements: str
  sample: []
removed:
  description: Builds that were too old to stay.
  returned: when the engine could be looked at
  type: list
  elements: str
  sample: []
steps:
  description: What was done, a line each, waits included.
  returned: when the engine could be looked at
  type: list
  elements: str
  sample: []
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmgw.fleet.plugins.module_utils import _argspec, _diff
from ansible_collections.llmgw.fleet.plugins.module_utils._cli import CHECK_SAID_NO, Cli, CliFailed

_ENDS = frozenset({0, 1, 5, CHECK_SAID_NO})
"""Well, failed, unsupported here, no: each with a document."""

_TOLD = (
    "binary",
    "detail",
    "missing_packages",
    "removed",
    "state",
    "variant",
    "version",
    "warning",
)
_STEP = "installing: "


def main() -> None:
    """Install or look, and say how the engine stands."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True, "choices": ["llamacpp", "sglang", "vllm"]},
            "version": {"type": "str"},
            "state": {"type": "str", "choices": ["checked", "present"], "default": "present"},
            "dir": {"type": "path", "default": "/opt/llmgw/engines"},
            "sources": {"type": "list", "elements": "str", "default": ["github"]},
            "digests": {"type": "dict", "default": {}},
            "packages": {"type": "bool", "default": True},
            "activate": {"type": "bool", "default": True},
            "keep": {"type": "int", "default": 2},
            "fatal": {"type": "bool", "default": True},
            **_argspec.runtime(timeout_s=3600.0),
        },
        supports_check_mode=True,
    )
    if module.params["state"] == "present" and not module.params["version"]:
        module.fail_json(msg="version is missing: exactly which release?")
    try:
        result = _converged(module.params, _argspec.cli(module.params), is_check=module.check_mode)
    except CliFailed as error:
        if not (module.check_mode and error.is_missing):
            module.fail_json(msg=error.message, meaning=error.meaning, rc=error.rc)
        module.exit_json(changed=module.params["state"] == "present", detail=error.message)
    if result["warning"]:
        module.warn(f"{module.params['name']}: {result['warning']}")
    if module.params["fatal"] and result["state"] not in {"ready", "wanted"}:
        module.fail_json(msg=_sentence(module.params, result), **result)
    module.exit_json(**result)


def _converged(params: dict[str, Any], cli: Cli, *, is_check: bool) -> dict[str, Any]:
    if params["state"] == "checked":
        version = ["--version", params["version"]] if params["version"] else []
        words = ["engine", "check", *_place(params), *version, "--", params["name"]]
        return {"changed": False, **_told(cli.ask(words, allowed=_ENDS).document), "steps": []}
    before = _in_use(params, cli)
    answer = cli.ask(_words(params, is_check=is_check), allowed=_ENDS)
    told = _told(answer.document)
    after = {"version": told["version"], "variant": told["variant"]}
    is_new = bool(answer.document.get("changed"))
    return {
        "changed": is_new,
        **told,
        "steps": [line.replace(_STEP, "", 1) for line in answer.said if line.startswith(_STEP)],
        "diff": _diff.change(before, after if is_new and params["activate"] else before),
    }


def _in_use(params: dict[str, Any], cli: Cli) -> dict[str, Any]:
    listed = cli.ask(["engine", "list", *_place(params)]).document.get("engines") or []
    for build in listed:
        if build.get("engine") == params["name"] and build.get("is_current"):
            return {"version": build.get("version"), "variant": build.get("variant")}
    return {"version": None, "variant": None}


def _words(params: dict[str, Any], *, is_check: bool) -> list[str]:
    words = ["engine", "install", *_place(params), "--version", params["version"]]
    words += ["--keep", str(params["keep"])]
    for source in params["sources"]:
        words += ["--source", source]
    for name, digest in sorted(params["digests"].items()):
        words += ["--digest", f"{name}={digest}"]
    flags = {
        "--no-packages": not params["packages"],
        "--no-activate": not params["activate"],
        "--check": is_check,
    }
    return [*words, *(flag for flag, is_on in flags.items() if is_on), "--", params["name"]]


def _place(params: dict[str, Any]) -> list[str]:
    return ["--json", "--dir", params["dir"]]


def _told(document: dict[str, Any]) -> dict[str, Any]:
    """The answer; Ansible would read ``path`` as a file that the module made."""
    return {**{key: document.get(key) for key in _TOLD}, "folder": document.get("path")}


def _sentence(params: dict[str, Any], result: dict[str, Any]) -> str:
    engine = " ".join(filter(None, [params["name"], result["version"], result["variant"]]))
    return f"{engine} is {result['state']}: {result['detail']}"


if __name__ == "__main__":
    main()
