# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Decides what a build of a VM has to do, and what stands in its way.

Pure: the module ``vm_plan_info`` reads from Proxmox and asks here. The steps are those of the
role ``vm``, in its order; what a step found done is not done again, so that a build continues.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from ansible_collections.llmgw.fleet.plugins.module_utils import _vm_devices
from ansible_collections.llmgw.fleet.plugins.module_utils._vm_values import GIB, Guest, Wanted

OURS = "llmgw"
BUILDING = "llmgw-building"
OLDEST_RELEASE = (8, 4)
"""The first with the content type ``import`` for disk images."""

STEPS = ("image", "create", "disk", "grow", "cloud_init", "settings", "start", "finish")

_SIZE = re.compile(r"(\d+)([KMGT]?)")
_VM_RIGHTS = (
    "VM.Allocate",
    "VM.Audit",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.PowerMgmt",
)


@dataclass(frozen=True)
class Verdict:
    """Whose the VMID is: ``free``, ``ours``, ``building`` or ``foreign``, and why not."""

    word: str
    problem: str = ""


@dataclass(frozen=True)
class Right:
    """A privilege on a path; any of them does."""

    path: str
    any_of: tuple[str, ...]

    def __str__(self) -> str:
        """As it stands in a sentence."""
        return f"{' or '.join(self.any_of)} on {self.path}"


def verdict(
    wanted: Wanted, *, holder: Guest | None, is_free: bool, namesakes: Sequence[Guest]
) -> Verdict:
    """Whose the VMID is, with what to do when it is not ours to take."""
    if holder is None and not is_free:
        return _foreign(wanted, "something that the token may not see")
    if holder is None:
        return _by_name(namesakes)
    if holder.kind == "qemu" and holder.name == wanted.name and BUILDING in holder.tags:
        return Verdict("building")
    if holder.kind == "qemu" and holder.name == wanted.name and OURS in holder.tags:
        return Verdict("ours")
    return _foreign(wanted, str(holder))


def _foreign(wanted: Wanted, holder: str) -> Verdict:
    return Verdict(
        "foreign",
        f"VMID {wanted.vmid} is taken by {holder}, which this role did not make as {wanted.name}: "
        "it is left alone; choose another vmid, or another address",
    )


def _by_name(namesakes: Sequence[Guest]) -> Verdict:
    for guest in namesakes:
        if guest.tags & {OURS, BUILDING}:
            advice = f"to go on with it, set vmid to {guest.vmid}"
        else:
            advice = "it is left alone; choose another name, or rename it"
        return Verdict(
            "foreign", f"VMID {guest.vmid} is {guest} and has this name already: {advice}"
        )
    return Verdict("free")


def steps(
    wanted: Wanted, *, word: str, has_image: bool, status: str, config: Mapping[str, Any]
) -> list[str]:
    """What is still to be done, in order."""
    if word == "ours":
        return [] if status == "running" else ["start"]
    due = {
        "image": not has_image and "scsi0" not in config,
        "create": word == "free",
        "disk": "scsi0" not in config,
        "grow": "scsi0" not in config or disk_bytes(config) < wanted.disk_gb * GIB,
        "cloud_init": wanted.cloud_init_drive not in config,
        "settings": any(not _is_set(config, *item) for item in wanted.settings.items()),
        "start": status != "running",
        "finish": True,
    }
    return [step for step in STEPS if due[step]]


def disk_bytes(config: Mapping[str, Any]) -> int:
    """The size of the first disk; 0 while it does not say one."""
    found = re.search(rf",size=({_SIZE.pattern})(?:,|$)", str(config.get("scsi0") or ""))
    return size_bytes(found[1]) if found else 0


def size_bytes(text: str) -> int:
    """``3584M`` as a number."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no size of a disk")
    return int(found[1]) * 1024 ** " KMGT".index(found[2] or " ")


def _is_set(config: Mapping[str, Any], key: str, value: Any) -> bool:
    if key not in config:
        return False
    if key == "sshkeys":
        return _lines(unquote(str(config[key]))) == _lines(str(value))
    return set(str(config[key]).split(",")) == set(str(value).split(","))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def final_tags(config: Mapping[str, Any]) -> list[str]:
    """The tags of a finished VM: those that it has, ours, and no longer that of a build."""
    given = re.findall(r"[^;, ]+", str(config.get("tags") or ""))
    return sorted({*given, OURS} - {BUILDING})


def drift(wanted: Wanted, config: Mapping[str, Any]) -> list[str]:
    """Where a finished VM differs from what is wanted now; it is told and never changed."""
    has_bytes, wants_bytes = disk_bytes(config), wanted.disk_gb * GIB
    differences = [
        ("cores", str(config.get("cores", 1)), str(wanted.cores)),
        ("memory", _memory(config), str(wanted.memory_mb)),
        ("cpu", str(config.get("cpu", "kvm64")), wanted.cpu),
        ("disk", _gib(has_bytes or wants_bytes), _gib(wants_bytes)),
    ]
    return [f"{key} is {has}, wanted {wants}" for key, has, wants in differences if has != wants]


def _memory(config: Mapping[str, Any]) -> str:
    return str(config.get("memory", 512)).partition(",")[0].replace("current=", "")


def rights(wanted: Wanted, due: Sequence[str]) -> list[Right]:
    """What the token has to hold for these steps."""
    vm = f"/vms/{wanted.vmid}"
    if not due:
        return []
    if list(due) == ["start"]:
        return [Right(vm, ("VM.PowerMgmt",))]
    image = f"/storage/{wanted.image_storage}"
    listed = [Right(vm, (right,)) for right in _VM_RIGHTS]
    listed += [
        Right(f"/storage/{wanted.storage}", ("Datastore.AllocateSpace",)),
        Right(image, ("Datastore.Audit", "Datastore.AllocateSpace")),
        Right(f"/sdn/zones/localnetwork/{wanted.bridge}", ("SDN.Use",)),
    ]
    if "image" in due and wanted.image_source:
        listed.append(Right(image, ("Datastore.AllocateTemplate",)))
    listed += [
        Right(f"/mapping/pci/{name}", ("Mapping.Use",)) for name in _vm_devices.named(wanted)
    ]
    return listed


def download_right(wanted: Wanted) -> Right:
    """What makes the hypervisor fetch an image; Sys.Audit and Sys.Modify on / do as well."""
    return Right(f"/nodes/{wanted.node}", ("Sys.AccessNetwork",))


def lacking_problem(token: str, lacking: Sequence[Right]) -> str:
    """One sentence on all rights that are missing."""
    by_path: dict[str, list[str]] = {}
    for right in lacking:
        by_path.setdefault(right.path, []).append(" or ".join(right.any_of))
    listed = "; ".join(f"{', '.join(words)} on {path}" for path, words in by_path.items())
    return (
        f"the token {token} lacks {listed}: give it a role with these privileges there "
        f"(pveum acl modify PATH --tokens '{token}' --roles ROLE); a token with separated "
        "privileges has none of its user's"
    )


def release_problem(version: Mapping[str, Any]) -> str:
    """Why this Proxmox is too old; empty when it is not."""
    found = re.match(r"(\d+)\.(\d+)", str(version.get("version") or ""))
    if found is None or (int(found[1]), int(found[2])) >= OLDEST_RELEASE:
        return ""
    oldest = ".".join(map(str, OLDEST_RELEASE))
    return f"Proxmox VE {version['version']} cannot import disk images for a token: {oldest} can"


def node_problem(wanted: Wanted, nodes: Iterable[Mapping[str, Any]]) -> str:
    """Why nothing can be built on this node; empty when it can."""
    known = {str(node.get("node")): node.get("status") for node in nodes}
    if wanted.node not in known:
        names = ", ".join(sorted(known)) or "none"
        return f"the cluster has no node {wanted.node}: vm_node is one of {names}"
    if known[wanted.node] != "online":
        return f"the Proxmox node {wanted.node} is {known[wanted.node]}: bring it up first"
    return ""


def storage_problem(
    wanted: Wanted,
    *,
    name: str,
    status: Mapping[str, Any] | None,
    content: str,
    least_bytes: int = 0,
) -> str:
    """Why this storage does not serve; empty when it does."""
    if status is None:
        return f"{wanted.node} has no storage {name}: look at Datacenter, Storage"
    if not status.get("enabled", 1) or not status.get("active", 1):
        return f"the storage {name} is not active on {wanted.node}"
    allowed = re.findall(r"[^, ]+", str(status.get("content") or ""))
    if content not in allowed:
        return (
            f"the storage {name} takes no {content}: switch that content type on "
            f"(pvesm set {name} --content {','.join([*allowed, content])})"
        )
    if int(status.get("avail") or 0) < least_bytes:
        return (
            f"the storage {name} on {wanted.node} has {_gib(int(status.get('avail') or 0))} free, "
            f"the image needs {_gib(least_bytes)}"
        )
    return ""


def image_problem(wanted: Wanted, *, has_image: bool, image_bytes: int) -> str:
    """Why there is nothing to import; empty when there is, or will be."""
    if not has_image and not wanted.image_source:
        return (
            f"the storage {wanted.image_storage} on {wanted.node} holds no image "
            f"{wanted.image_name}: set vm_image_url and vm_image_sha256, or vm_image_src, or put "
            "the file there as an import image"
        )
    if image_bytes > wanted.disk_gb * GIB:
        least = -(-image_bytes // GIB)
        return (
            f"a disk of {wanted.disk_gb} GiB is smaller than the image {wanted.image_name}, which "
            f"holds {_gib(image_bytes)}: set vm_disk_gb to {least} or more"
        )
    return ""


def bridge_problem(wanted: Wanted, bridges: Iterable[str]) -> str:
    """Why the network card has no bridge; empty when it has."""
    known = sorted(bridges)
    if wanted.bridge in known:
        return ""
    return f"{wanted.node} has no bridge {wanted.bridge}: vm_bridge is one of {', '.join(known)}"


def lock_problem(wanted: Wanted, holder: Guest) -> str:
    """Why a VM of ours cannot be touched now; empty when it can."""
    if not holder.lock:
        return ""
    return (
        f"VM {wanted.vmid} is locked ({holder.lock}) and no task of it runs: look at its last "
        f"task, then on {holder.node}: qm unlock {wanted.vmid}"
    )


def task_failure(tasks: Iterable[Mapping[str, Any]]) -> str:
    """What Proxmox said of its last task that failed; empty when the last one did well."""
    ended = [task for task in tasks if not is_running(task)]
    last = max(ended, key=lambda task: task.get("starttime") or 0, default={})
    said = str(last.get("status") or "OK")
    return "" if said == "OK" or said.startswith("WARN") else f"{last.get('type')}: {said}"


def is_running(task: Mapping[str, Any]) -> bool:
    """Whether a task goes on; Proxmox lists some that have just ended among the active ones."""
    return task.get("status") in {None, "", "RUNNING"}


def _gib(size: int) -> str:
    return f"{size / GIB:.4g} GiB"
