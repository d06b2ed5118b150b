#!/usr/bin/python

# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Shows what building a VM on Proxmox would take, and what stands in its way."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_plan_info
short_description: What building a VM on Proxmox would take
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Reads from the API of a Proxmox cluster whose a VMID is, what of a build is already done, and
    everything that would stop it, with what to do.
  - What stops a build is no failure of the module; it is listed in RV(problems), so that a playbook
    can show the problems of many machines in one message.
  - The role P(llmgw.fleet.vm#role) asks it before each of its steps.
options:
  api_host:
    description: Address of any host of the cluster.
    type: str
    default: ""
  api_port:
    description: Port of the API.
    type: int
    default: 8006
  api_user:
    description: User of the token, with its realm, such as V(llmgw@pve).
    type: str
    default: ""
  api_token_id:
    description: Name of the token, without its user.
    type: str
    default: ""
  api_token_secret:
    description: The token's secret.
    type: str
    default: ""
  ca_path:
    description: Certificates in PEM form by which the API is believed; unset means the system's.
    type: path
  validate_certs:
    description: Whether the API's certificate has to be believed.
    type: bool
    default: true
  request_timeout_s:
    description: The longest wait for one answer.
    type: float
    default: 10.0
  task_wait_s:
    description: The longest wait for tasks that an earlier, interrupted build left running.
    type: int
    default: 600
  name:
    description: Name of the VM, which is that of the node.
    type: str
    required: true
  vmid:
    description: Its number in the cluster; unset means the last octet of O(address).
    type: int
  vmid_base:
    description: What is added to the last octet.
    type: int
    default: 0
  address:
    description: Its address with the prefix, such as V(10.0.0.145/24).
    type: str
    default: ""
  gateway:
    description: Its default gateway; empty means none.
    type: str
    default: ""
  may_answer:
    description: Whether something may answer at O(address) before the VM is built.
    type: bool
    default: false
  node:
    description: Proxmox node on which it is built.
    type: str
    default: ""
  storage:
    description: Storage of its disks.
    type: str
    default: local-lvm
  image_storage:
    description: Storage that holds, or gets, the disk image.
    type: str
    default: local
  image_name:
    description: File name of the image there.
    type: str
    required: true
  image_source:
    description: How the image would get there; V(none) means that it has to be there.
    type: str
    choices: [none, url, src]
    default: none
  image_sha256:
    description: Sum that a downloaded image must have.
    type: str
    default: ""
  bridge:
    description: Bridge of its network card.
    type: str
    default: vmbr0
  disk_gb:
    description: Size of its disk in GiB.
    type: int
    default: 20
  cores:
    description: Its processor cores.
    type: int
    default: 4
  memory_mb:
    description: Its memory in MiB.
    type: int
    default: 8192
  cpu:
    description: Its processor type.
    type: str
    default: host
  cloud_init_drive:
    description: Where its cloud-init drive is.
    type: str
    default: ide2
  user:
    description: Account that cloud-init makes.
    type: str
    default: ""
  ssh_keys:
    description: Public keys that may log in to that account.
    type: list
    elements: str
    default: []
  settings:
    description: What else its configuration has to say, as Proxmox spells it.
    type: dict
    default: {}
  gpu_mappings:
    description: Resource mappings that are passed through.
    type: list
    elements: str
    default: []
  explain:
    description: Whether the last failed task of the VM is looked up as well.
    type: bool
    default: false
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
seealso:
  - module: community.proxmox.proxmox_kvm
notes:
  - Nothing beyond Python's standard library is needed where the task runs.
"""

EXAMPLES = r"""
- name: It is known what building node05 would take
  llmgw.fleet.vm_plan_info:
    api_host: pve1.internal
    api_user: llmgw@pve
    api_token_id: fleet
    api_token_secret: "{{ vault_proxmox_token_secret }}"
    name: node05
    address: 10.0.0.145/24
    gateway: 10.0.0.1
    node: pve1
    image_name: noble-server-cloudimg-amd64.qcow2
    user: ops
    ssh_keys:
      - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE1n ops@example.org
  delegate_to: localhost
  register: plan
"""

RETURN = r"""
verdict:
  description:
    - V(free) to be built, V(building) by an earlier run, V(ours) and finished, V(foreign), or
      V(unknown) when the API could not be asked.
  returned: success
  type: str
  sample: free
vmid:
  description: The VM's number; 0 when none follows from what is given.
  returned: success
  type: int
  sample: 145
problems:
  description: Everything that stops the build, as sentences that say what to do.
  returned: success
  type: list
  elements: str
  sample: []
steps:
  description: What is still to be done, in order.
  returned: success
  type: list
  elements: str
  sample: [create, disk, grow, cloud_init, settings, start, finish]
node:
  description: Proxmox node on which the VM is, or would be built.
  returned: success
  type: str
  sample: pve1
status:
  description: Whether it runs; empty when there is no such VM.
  returned: success
  type: str
  sample: running
drift:
  description: Where a finished VM differs from what is wanted; nothing changes it.
  returned: success
  type: list
  elements: str
  sample: [cores is 2, wanted 4]
tags:
  description: The tags that the finished VM has.
  returned: success
  type: list
  elements: str
  sample: [llmgw]
image_volume:
  description: The image as Proxmox names it.
  returned: success
  type: str
  sample: local:import/noble-server-cloudimg-amd64.qcow2
task_failure:
  description: What Proxmox said of the last failed task of this VMID; empty when there is none.
  returned: when O(explain=true)
  type: str
  sample: "qmstart: bridge 'vmbr7' does not exist"
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmgw.fleet.plugins.module_utils import (
    _names,
    _proxmox,
    _reach,
    _vm_inputs,
)
from ansible_collections.llmgw.fleet.plugins.module_utils._proxmox import Api, ApiFailed, ApiRefused
from ansible_collections.llmgw.fleet.plugins.module_utils._vm_look import Look
from ansible_collections.llmgw.fleet.plugins.module_utils._vm_values import Wanted

_ACCESS = {
    "api_host": {"type": "str", "default": ""},
    "api_port": {"type": "int", "default": 8006},
    "api_user": {"type": "str", "default": ""},
    "api_token_id": {"type": "str", "default": ""},
    "api_token_secret": {"type": "str", "default": "", "no_log": True},
    "ca_path": {"type": "path"},
    "validate_certs": {"type": "bool", "default": True},
    "request_timeout_s": {"type": "float", "default": _proxmox.TIMEOUT_S},
}
_INPUT = {
    "vmid": {"type": "int"},
    "vmid_base": {"type": "int", "default": 0},
    "address": {"type": "str", "default": ""},
    "gateway": {"type": "str", "default": ""},
    "may_answer": {"type": "bool", "default": False},
    "image_sha256": {"type": "str", "default": ""},
    "user": {"type": "str", "default": ""},
    "ssh_keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
}
_WANTED = {
    "name": {"type": "str", "required": True},
    "node": {"type": "str", "default": ""},
    "storage": {"type": "str", "default": "local-lvm"},
    "image_storage": {"type": "str", "default": "local"},
    "image_name": {"type": "str", "required": True},
    "image_source": {"type": "str", "choices": ["none", "url", "src"], "default": "none"},
    "bridge": {"type": "str", "default": "vmbr0"},
    "disk_gb": {"type": "int", "default": 20},
    "cores": {"type": "int", "default": 4},
    "memory_mb": {"type": "int", "default": 8192},
    "cpu": {"type": "str", "default": "host"},
    "cloud_init_drive": {"type": "str", "default": "ide2"},
    "settings": {"type": "dict", "default": {}},
    "gpu_mappings": {"type": "list", "elements": "str", "default": []},
}


def main() -> None:
    """Look, and show."""
    module = AnsibleModule(
        argument_spec={
            **_ACCESS,
            **_INPUT,
            **_WANTED,
            "task_wait_s": {"type": "int", "default": 600},
            "explain": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    given = module.params
    access_problems = _vm_inputs.access_problems(given)
    look = Look(
        api=_api(given),
        wanted=_wanted(given),
        task_wait_s=given["task_wait_s"],
        problems=[*access_problems, *_vm_inputs.input_problems(given)],
    )
    found = look.nothing()
    try:
        if not access_problems:
            found = look.around()
        if found["verdict"] == "free" and given["address"] and not given["may_answer"]:
            how = _reach.answers(
                _names.ip_of(given["address"]),
                ping=module.get_bin_path("ping"),
                run=lambda command: module.run_command(command)[0],
            )
            look.note(_vm_inputs.live_problem(given["address"], how))
        if given["explain"]:
            found["task_failure"] = look.task_failure()
    except ApiFailed as error:
        look.note(str(error))
    except ApiRefused as error:
        look.note(f"Proxmox refuses: {error}")
    module.exit_json(changed=False, **found)


def _api(given: dict[str, Any]) -> Api:
    return Api(
        host=given["api_host"],
        port=given["api_port"],
        user=given["api_user"],
        token_id=given["api_token_id"],
        token_secret=given["api_token_secret"],
        ca_path=given["ca_path"],
        is_verified=given["validate_certs"],
        timeout_s=given["request_timeout_s"],
    )


def _wanted(given: dict[str, Any]) -> Wanted:
    values = {key: given[key] for key in _WANTED}
    if values["image_source"] == "none":
        values["image_source"] = ""
    return Wanted(vmid=_vm_inputs.vmid_of(given), **values)


if __name__ == "__main__":
    main()
