#!/usr/bin/python

# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Shows what the control plane knows of its nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_info
short_description: What a control plane knows of its nodes
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Returns one node, some or all of them, as they have reported themselves.
  - A name that the control plane has never heard of is no failure; it is listed in RV(missing).
options:
  name:
    description:
      - Only these nodes, in this order.
      - Unset means all of them.
    type: list
    elements: str
    aliases:
      - names
extends_documentation_fragment:
  - llmgw.fleet.control
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
seealso:
  - module: llmgw.fleet.node
"""

EXAMPLES = r"""
- name: A node has registered
  llmgw.fleet.node_info:
    name: node05
  delegate_to: "{{ groups.control_host | first }}"
  register: seen
  until: seen.nodes | map(attribute='state') | list == ['ready']
  retries: 12
  delay: 5

- name: All nodes are listed
  llmgw.fleet.node_info:
  delegate_to: control01
  register: fleet
"""

RETURN = r"""
nodes:
  description:
    - The nodes as the admin API shows them; a figure that is not known is null.
    - What a node says of itself, such as its labels, is text and nothing more.
  returned: success
  type: list
  elements: dict
  contains:
    node_id:
      description: Name of the node.
      type: str
    state:
      description: C(ready), C(cordoned), C(draining), C(unreachable) or C(lost).
      type: str
    is_connected:
      description: Whether its agent has a connection to this control plane.
      type: bool
    last_seen_s:
      description: Seconds since it last spoke.
      type: float
    target:
      description:
        - What an operator last asked for, which is C(ready), C(cordoned) or C(draining).
        - The state shows it unless the node is silent.
      type: str
    flag_reason:
      description: Why it is cordoned or drained.
      type: str
    mgmt_addr:
      description: Address on which its engines listen.
      type: str
    agent_version:
      description: Version of its llmgw.
      type: str
    labels:
      description: Free words of the operator of the node.
      type: dict
    engine_versions:
      description: Version by engine; null when the node never looked for engines.
      type: dict
    engine_installs:
      description: How far the node has come with engines that it should have.
      type: list
      elements: dict
    replica_ids:
      description: Replicas that hold something on the node.
      type: list
      elements: str
  sample:
    - agent_version: 0.1.0
      engine_installs: []
      engine_versions:
        llamacpp: b10991
      flag_reason: ""
      is_connected: true
      labels: {}
      last_seen_s: 1.3
      mgmt_addr: 10.0.0.145
      node_id: node05
      replica_ids: []
      state: ready
      target: ready
missing:
  description: Names that were asked for and that no node has.
  returned: success
  type: list
  elements: str
  sample: []
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmgw.fleet.plugins.module_utils import _argspec
from ansible_collections.llmgw.fleet.plugins.module_utils._client import ApiFailed, Client


def main() -> None:
    """Ask, and show."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str", "aliases": ["names"]},
            **_argspec.control(),
        },
        required_together=_argspec.CONTROL_TOGETHER,
        supports_check_mode=True,
    )
    try:
        found = _found(_argspec.client(module.params), module.params["name"])
    except ApiFailed as error:
        module.fail_json(msg=error.message, kind=error.kind, code=error.code)
    module.exit_json(changed=False, **found)


def _found(client: Client, names: list[str] | None) -> dict[str, Any]:
    nodes = client.get("nodes").get("nodes") or []
    if names is None:
        return {"nodes": nodes, "missing": []}
    by_id = {node.get("node_id"): node for node in nodes}
    return {
        "nodes": [by_id[name] for name in names if name in by_id],
        "missing": [name for name in names if name not in by_id],
    }


if __name__ == "__main__":
    main()
