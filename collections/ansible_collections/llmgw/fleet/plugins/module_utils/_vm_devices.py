# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Decides whether devices of a Proxmox host can be passed through to a VM.

Pure. Devices go by resource mapping: a token may use a mapping, but no address of the bus.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.llmgw.fleet.plugins.module_utils._vm_values import Guest, Wanted

_PCI_ADDRESS = re.compile(r"([0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}(\.[0-7])?", re.IGNORECASE)


def problems(
    wanted: Wanted,
    *,
    mappings: Iterable[Mapping[str, Any]],
    users: Mapping[str, Sequence[Guest]],
) -> list[str]:
    """Why devices cannot be passed through; ``users`` are running VMs by mapping."""
    listed = {str(entry.get("id")): entry for entry in mappings}
    found = []
    for name in dict.fromkeys(wanted.gpu_mappings):
        if _PCI_ADDRESS.fullmatch(name):
            found.append(
                f"{name} is a PCI address, and only a password session of root@pam may pass one "
                "through, never a token: make a resource mapping of it (Datacenter, Resource "
                "Mappings) and name that in vm_gpu_mappings"
            )
        elif name not in listed:
            found.append(
                f"there is no resource mapping {name} that the token may use: "
                f"vm_gpu_mappings are of {', '.join(sorted(listed)) or 'none'}"
            )
        else:
            needed = wanted.gpu_mappings.count(name)
            found += _mapping_problems(wanted, listed[name], needed, users.get(name, ()))
    return found


def _mapping_problems(
    wanted: Wanted, mapping: Mapping[str, Any], needed: int, users: Sequence[Guest]
) -> list[str]:
    name = mapping["id"]
    devices = [_properties(entry) for entry in mapping.get("map") or ()]
    here = [device for device in devices if device.get("node") == wanted.node]
    if not here:
        return [f"the resource mapping {name} has no device on {wanted.node}"]
    problems = [
        f"the resource mapping {name} is not valid on {wanted.node}: {check.get('message')}"
        for check in mapping.get("checks") or ()
        if check.get("severity") == "error"
    ]
    if any(device.get("iommugroup", "-1") == "-1" for device in here):
        problems.append(
            f"a device of {name} on {wanted.node} is in no IOMMU group: switch the IOMMU on in "
            "firmware and kernel of that host, then save the mapping again"
        )
    if len(here) - len(users) < needed:
        holders = ", ".join(f"VMID {guest.vmid} ({guest.name})" for guest in users) or "nobody"
        problems.append(
            f"{needed} of {name} wanted, but {wanted.node} has {len(here)} and running VMs hold "
            f"{len(users)}: {holders}"
        )
    return problems


def mappings_of(config: Mapping[str, Any]) -> list[str]:
    """The resource mappings that a VM's configuration names."""
    devices = (
        _properties(str(value)) for key, value in config.items() if key.startswith("hostpci")
    )
    return [device["mapping"] for device in devices if "mapping" in device]


def named(wanted: Wanted) -> list[str]:
    """The mappings that are asked for, once each."""
    return [name for name in dict.fromkeys(wanted.gpu_mappings) if not _PCI_ADDRESS.fullmatch(name)]


def _properties(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in str(text).split(",") if "=" in part)
