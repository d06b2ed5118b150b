#!/usr/bin/python

# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Cordons, drains, frees or forgets a node of a control plane."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node
short_description: Whether a node takes work
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Tells the control plane what to do with a node. The control plane moves what runs there; this
    module stops nothing.
options:
  name:
    description: Name of the node.
    type: str
    required: true
  state:
    description:
      - V(ready) takes replicas. This lifts a cordon, whoever set it.
      - V(cordoned) takes no new replica, and what runs there goes on.
      - V(drained) takes no new replica, and every replica moves to other nodes. The task waits
        until the node holds none.
      - V(absent) is forgotten by the control plane. Its agent must have no connection any more.
    type: str
    choices:
      - absent
      - cordoned
      - drained
      - ready
    default: ready
  reason:
    description: Why it is cordoned or drained, for everybody who looks at the node.
    type: str
  wait_s:
    description:
      - How long O(state=drained) waits for the last replica to leave; 0 does not wait.
      - When the time is over the task fails and says what is left and why. The node stays draining.
    type: float
    default: 1800.0
  poll_s:
    description: Time between two looks while waiting.
    type: float
    default: 5.0
extends_documentation_fragment:
  - llmgw.fleet.control
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  platform:
    platforms: posix
seealso:
  - module: llmgw.fleet.node_info
"""

EXAMPLES = r"""
- name: A node is emptied before its disks are changed
  llmgw.fleet.node:
    name: node05
    state: drained
    reason: new disks
  delegate_to: "{{ groups.control_host | first }}"

- name: It takes work again
  llmgw.fleet.node:
    name: node05
    state: ready
  delegate_to: "{{ groups.control_host | first }}"
"""

RETURN = r"""
state:
  description: The state of the node afterwards, as the control plane says it.
  returned: success, unless the node is absent
  type: str
  sample: draining
reason:
  description: Why it is cordoned or drained.
  returned: success, unless the node is absent
  type: str
  sample: new disks
moved:
  description: Replicas that have left the node while the task waited.
  returned: when O(state=drained)
  type: list
  elements: str
  sample:
    - llama-9f31c2aa
left:
  description: Replicas that the node still holds.
  returned: when O(state=drained)
  type: list
  elements: dict
  contains:
    replica_id:
      description: Its name.
      type: str
    model:
      description: Its model.
      type: str
    reason:
      description: Why it is still there, where that is known.
      type: str
  sample: []
refused:
  description: Those of RV(left) for which no other node has a place.
  returned: when O(state=drained)
  type: list
  elements: str
  sample: []
"""

import time
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmgw.fleet.plugins.module_utils import _argspec, _diff
from ansible_collections.llmgw.fleet.plugins.module_utils._client import ApiFailed, Client

_TARGETS = {"ready": "ready", "cordoned": "cordoned", "drained": "draining"}

Node = Mapping[str, Any]


def main() -> None:
    """Bring the node into the state that is wanted."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {
                "type": "str",
                "choices": ["absent", "cordoned", "drained", "ready"],
                "default": "ready",
            },
            "reason": {"type": "str"},
            "wait_s": {"type": "float", "default": 1800.0},
            "poll_s": {"type": "float", "default": 5.0},
            **_argspec.control(),
        },
        required_together=_argspec.CONTROL_TOGETHER,
        supports_check_mode=True,
    )
    params, client = module.params, _argspec.client(module.params)
    try:
        if params["state"] == "absent":
            module.exit_json(**_forgotten(client, params, is_check=module.check_mode))
        before = client.get("nodes", params["name"])
        result = _flagged(client, params, before, is_check=module.check_mode)
        if params["state"] == "drained":
            wait_s = 0 if module.check_mode else params["wait_s"]
            result.update(_emptied(client, before, poll_s=params["poll_s"], wait_s=wait_s))
    except ApiFailed as error:
        module.fail_json(msg=error.message, kind=error.kind, code=error.code)
    if result.get("left") and params["wait_s"] and not module.check_mode:
        module.fail_json(msg=_sentence(params, result["left"]), **result)
    module.exit_json(**result)


def _forgotten(client: Client, params: dict[str, Any], *, is_check: bool) -> dict[str, Any]:
    try:
        node = client.get("nodes", params["name"])
    except ApiFailed as error:
        if error.code != "unknown":
            raise
        return {"changed": False}
    if node.get("is_connected"):
        raise ApiFailed(
            f"node {params['name']!r} is connected and would register again: stop its agent first",
            kind="conflict",
        )
    if not is_check:
        client.delete("nodes", params["name"])
    return {"changed": True, "diff": _diff.change(_shown(node), {})}


def _flagged(
    client: Client, params: dict[str, Any], before: Node, *, is_check: bool
) -> dict[str, Any]:
    after, target, reason = before, _TARGETS[params["state"]], params["reason"] or ""
    is_new_reason = target != "ready" and reason not in {"", before.get("flag_reason")}
    is_change = before.get("target") != target or is_new_reason
    if is_change and is_check:
        after = {**before, "state": target, "flag_reason": reason}
    elif is_change:
        body = {"target": target, "reason": reason}
        after = client.post("nodes", params["name"], "state", body=body)
    return {
        "changed": is_change,
        "state": after.get("state"),
        "reason": after.get("flag_reason"),
        "diff": _diff.change(_shown(before), _shown(after)),
    }


def _emptied(client: Client, before: Node, *, poll_s: float, wait_s: float) -> dict[str, Any]:
    """What left the node until it was empty or the wait was over, what is left, and why."""
    node, ends_at = before, time.monotonic() + wait_s
    while not _is_empty(node) and (rest_s := ends_at - time.monotonic()) > 0:
        time.sleep(min(poll_s, rest_s))
        node = client.get("nodes", before["node_id"])
    left, refused = ([], []) if _is_empty(node) else _left(client, node)
    moved = sorted(set(_replicas(before)) - set(_replicas(node)))
    return {"moved": moved, "left": left, "refused": refused}


def _left(client: Client, node: Node) -> tuple[list[dict[str, str]], list[str]]:
    """What the node still holds, with the reasons; and what of that has no other place."""
    missing = {m["name"]: m.get("reason") for m in client.get("models").get("models", [])}
    left = [
        {
            "replica_id": replica["replica_id"],
            "model": replica["model"],
            "reason": missing.get(replica["model"]) or replica.get("drain_reason") or "",
        }
        for replica in client.get("replicas", node=node["node_id"]).get("replicas", [])
    ]
    strays = [
        {"replica_id": shard, "model": "", "reason": "was told to stop and has not confirmed it"}
        for shard in node.get("stray_shard_ids") or ()
    ]
    return left + strays, [item["replica_id"] for item in left if missing.get(item["model"])]


def _is_empty(node: Node) -> bool:
    return not node.get("replica_ids") and not node.get("stray_shard_ids")


def _replicas(node: Node) -> list[str]:
    return list(node.get("replica_ids") or ())


def _shown(node: Node) -> dict[str, Any]:
    return {"state": node.get("state"), "reason": node.get("flag_reason")}


def _sentence(params: dict[str, Any], left: list[dict[str, str]]) -> str:
    each = [f"{i['replica_id']} ({i['reason'] or 'no reason is known'})" for i in left]
    return (
        f"node {params['name']!r} still holds {', '.join(each)} after {params['wait_s']:g} s; "
        "it stays draining, so that another run goes on from here"
    )


if __name__ == "__main__":
    main()
