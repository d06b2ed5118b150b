#!/usr/bin/python

# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""The module that has a wheelhouse for a host ready on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: wheelhouse
short_description: Has an archive with every wheel that a host needs
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Builds C(llmgw) from a checkout, downloads every wheel that it needs on the host, and packs them
    into one archive on the controller, so that the host installs without any network.
  - An archive that was made from the same files for the same kind of host is kept.
  - Delegate it to C(localhost).
requirements:
  - packaging, which comes with ansible-core
options:
  tag:
    description: Python and processor of the host, as P(llmgw.fleet.wheel_tag#filter) says.
    type: str
    required: true
  extras:
    description: Extras of the package C(llmgw) that the host needs.
    type: list
    elements: str
    default: []
  source:
    description: Folder of a checkout of llmgw. Required unless O(bundle) is given.
    type: path
  dest:
    description: Folder of the controller that keeps archives. Required unless O(bundle) is given.
    type: path
  python:
    description: The Python whose pip builds and downloads; unset means the module's own.
    type: path
  compiled:
    description:
      - Whether the gateway in it is compiled, which saves half of the processor time of a request.
      - It is so only for a host that runs gateways and has the Python and processor of O(python),
        and where that Python has its headers and a C compiler; any other host gets it uncompiled.
    type: bool
    default: true
  bundle:
    description:
      - An archive that was made elsewhere, or a folder with one for each kind of host.
      - Nothing is built or downloaded then.
    type: path
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
    details: Names the archive without making it.
  diff_mode:
    support: full
  platform:
    platforms: posix
"""

EXAMPLES = r"""
- name: The controller has the wheels of this host
  llmgw.fleet.wheelhouse:
    source: /srv/llmgw
    dest: ~/.cache/llmgw/wheelhouse
    tag: "{{ ansible_facts | llmgw.fleet.wheel_tag }}"
    extras: [agent]
  delegate_to: localhost
  become: false
"""

RETURN = r"""
archive:
  description: The archive, on the controller.
  type: str
  returned: success
version:
  description: The version of llmgw in it.
  type: str
  returned: success
identity:
  description: A digest of everything that it was made from.
  type: str
  returned: success
compiled:
  description: Whether the gateway in it is compiled.
  type: bool
  returned: success
"""

import sys
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.llmgw.fleet.plugins.module_utils import _wheelhouse, _wheels


def main() -> None:
    """Have the archive, or fail with what to do."""
    module = AnsibleModule(
        argument_spec={
            "tag": {"type": "str", "required": True},
            "extras": {"type": "list", "elements": "str", "default": []},
            "source": {"type": "path"},
            "dest": {"type": "path"},
            "python": {"type": "path"},
            "compiled": {"type": "bool", "default": True},
            "bundle": {"type": "path"},
        },
        mutually_exclusive=[("source", "bundle")],
        required_one_of=[("source", "bundle")],
        required_by={"source": "dest"},
        supports_check_mode=True,
    )
    if not _wheels.HAS_PACKAGING:
        module.fail_json(msg=missing_required_lib("packaging"))
    try:
        had = _had(module)
    except (ValueError, OSError, _wheelhouse.WheelhouseError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=had.is_made,
        archive=str(had.path),
        version=had.version,
        identity=had.identity,
        compiled=had.is_compiled,
        diff={"before": "", "after": f"{had.path}\n" if had.is_made else ""},
    )


def _had(module: AnsibleModule) -> _wheelhouse.Wheelhouse:
    asked = module.params
    target = _wheels.target(asked["tag"], asked["extras"])
    if asked["bundle"]:
        return _wheelhouse.found(Path(asked["bundle"]), target)
    workshop = _wheelhouse.Workshop(
        source=Path(asked["source"]),
        dest=Path(asked["dest"]),
        python=asked["python"] or sys.executable,
        compiles=asked["compiled"],
    )
    return workshop.wheelhouse(target, is_trial=module.check_mode)


if __name__ == "__main__":
    main()
