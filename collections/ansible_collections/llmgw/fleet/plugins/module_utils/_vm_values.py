# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Values of a build: the VM as it shall be, and what a VMID stands for now."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

GIB = 1024**3


@dataclass(frozen=True)
class Wanted:
    """The VM as it shall be."""

    name: str
    vmid: int
    node: str
    storage: str
    image_storage: str
    image_name: str
    image_source: str
    """``url``, ``src``, or nothing when the image has to be there already."""
    bridge: str
    disk_gb: int
    cores: int
    memory_mb: int
    cpu: str
    cloud_init_drive: str
    settings: Mapping[str, Any]
    gpu_mappings: Sequence[str] = ()

    @property
    def image_volume(self) -> str:
        """The image as Proxmox names it."""
        return f"{self.image_storage}:import/{self.image_name}"


@dataclass(frozen=True)
class Guest:
    """What a VMID stands for: a VM or a container."""

    vmid: int
    name: str
    node: str
    kind: str
    status: str
    tags: frozenset[str]
    lock: str = ""

    @classmethod
    def from_resource(
        cls, row: Mapping[str, Any], config: Mapping[str, Any] | None = None
    ) -> Guest:
        """From the list of the cluster; its configuration knows name, tags and lock better."""
        known = {**row, **(config or {})}
        return cls(
            vmid=int(row["vmid"]),
            name=str(known.get("name") or ""),
            node=str(row.get("node") or ""),
            kind=str(row.get("type") or "qemu"),
            status=str(row.get("status") or "unknown"),
            tags=frozenset(re.findall(r"[^;, ]+", str(known.get("tags") or ""))),
            lock=str(known.get("lock") or ""),
        )

    def __str__(self) -> str:
        """For a sentence."""
        kind = "the container" if self.kind == "lxc" else "the VM"
        marks = [self.status, *(f"tag {tag}" for tag in sorted(self.tags))]
        if self.lock:
            marks.append(f"locked: {self.lock}")
        return f"{kind} {self.name or 'without a name'} on {self.node} ({', '.join(marks)})"
