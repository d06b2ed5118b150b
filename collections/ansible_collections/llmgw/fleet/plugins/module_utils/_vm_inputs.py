# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds what is missing or wrong of what a person gave for a VM, before anybody is asked.

Pure. The sentences name the variables of the role ``vm``, because that is where values are given.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.llmgw.fleet.plugins.module_utils import _names


def vmid_of(given: Mapping[str, Any]) -> int:
    """The number that is given, or the one that follows from the address; 0 when none does."""
    if given["vmid"]:
        return int(given["vmid"])
    try:
        return _names.default_vmid(given["address"], given["vmid_base"])
    except ValueError:
        return 0


def access_problems(given: Mapping[str, Any]) -> list[str]:
    """Why nobody can be asked: what is missing or wrong of the API's address and the token."""
    words = {
        "vm_api_host": "the address of a Proxmox host",
        "vm_api_user": "the token's user with its realm, such as llmgw@pve",
        "vm_api_token_id": "the token's name",
        "vm_api_token_secret": "the token's secret, from a vault",
    }
    problems = [
        f"{name} is not set: it is {meaning}"
        for name, meaning in words.items()
        if not given[name.removeprefix("vm_")]
    ]
    if given["api_user"] and "@" not in given["api_user"]:
        problems.append(
            f"vm_api_user {given['api_user']} has no realm: write {given['api_user']}@pve"
        )
    if "!" in given["api_token_id"] or "!" in given["api_user"]:
        problems.append(
            "vm_api_user is what stands before the ! of a token, vm_api_token_id after it"
        )
    return problems


def input_problems(given: Mapping[str, Any]) -> list[str]:
    """What is missing or wrong of the VM itself, before anybody is asked."""
    problems = []
    name_problem = _names.node_name_problem(given["name"])
    if name_problem:
        problems.append(f"the name {given['name']!r} {name_problem}")
    problems += _address_problems(given)
    if not given["node"]:
        problems.append("vm_node is not set: it is the Proxmox node on which the VM is built")
    if not given["user"]:
        problems.append("vm_user is not set: it is the account that cloud-init makes")
    keys = [str(key) for key in given["ssh_keys"]]
    if not keys:
        problems.append("vm_ssh_keys is empty: without a public key nobody can log in")
    if any("PRIVATE KEY" in key for key in keys):
        problems.append(
            "vm_ssh_keys holds a private key: give its public half, and make a new pair"
        )
    if given["image_source"] == "url" and not re.fullmatch(
        "[0-9a-fA-F]{64}", given["image_sha256"]
    ):
        problems.append("vm_image_sha256 is no SHA-256 sum: an image is not downloaded without one")
    return problems


def _address_problems(given: Mapping[str, Any]) -> list[str]:
    address, gateway = given["address"], given["gateway"]
    if not address:
        return ["vm_ip is not set: it is the VM's address with its prefix, such as 10.0.0.145/24"]
    try:
        network = ipaddress.ip_interface(address).network
    except ValueError:
        return [f"vm_ip {address} is no address with a prefix such as 10.0.0.145/24"]
    if "/" not in address:
        return [f"vm_ip {address} has no prefix: write {address}/24, or what the network has"]
    problems = []
    if not given["vmid"]:
        try:
            _names.default_vmid(address, given["vmid_base"])
        except ValueError as error:
            problems.append(str(error))
    # A machine alone in its network has its gateway outside of it.
    if gateway and network.num_addresses > 1 and not _is_in(gateway, network):
        problems.append(f"vm_gateway {gateway} is no address in {network}")
    return problems


def _is_in(address: str, network: Any) -> bool:
    try:
        return ipaddress.ip_address(address) in network
    except ValueError:
        return False


def live_problem(address: str, how: str) -> str:
    """Why the address cannot be given to a new VM; empty when nobody has it."""
    if not how:
        return ""
    return (
        f"{_names.ip_of(address)} answers already ({how}): another machine has this address; "
        "choose another, or set vm_allow_live_ip=true when that machine goes"
    )
