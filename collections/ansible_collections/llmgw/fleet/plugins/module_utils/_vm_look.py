# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Looks at a Proxmox cluster as a build of one VM needs it; it reads and never writes.

What is seen is judged in ``_vm_build``; the module ``vm_plan_info`` shows the result.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.llmgw.fleet.plugins.module_utils import _vm_build, _vm_devices
from ansible_collections.llmgw.fleet.plugins.module_utils._proxmox import Api, ApiRefused
from ansible_collections.llmgw.fleet.plugins.module_utils._vm_build import Verdict
from ansible_collections.llmgw.fleet.plugins.module_utils._vm_values import Guest, Wanted

_POLL_S = 1.0


@dataclass
class Look:
    """One look at the cluster; ``problems`` collects what stands in the way."""

    api: Api
    wanted: Wanted
    task_wait_s: int
    problems: list[str]
    held: dict[str, frozenset[str]] = field(default_factory=dict)

    def around(self) -> dict[str, Any]:
        """Everything that the role has to know before its next step."""
        self.note(_vm_build.release_problem(self.api.get("version")))
        if not self.wanted.node or not self.wanted.vmid:
            return self.nothing()
        problem = _vm_build.node_problem(self.wanted, self.api.get("nodes"))
        self.note(problem)
        if problem:
            return self.nothing()
        holder, config, judged = self._judged()
        self.note(judged.problem)
        found = {
            **self.nothing(),
            "verdict": judged.word,
            "status": holder.status if holder else "",
        }
        if judged.word == "foreign":
            self._check_place()
            return found
        if holder is not None:
            self.wanted = replace(self.wanted, node=holder.node)
            self.note(_vm_build.lock_problem(self.wanted, holder))
        found["node"] = self.wanted.node
        found["drift"] = _vm_build.drift(self.wanted, config) if judged.word == "ours" else []
        found["tags"] = _vm_build.final_tags(config)
        found["steps"] = self._steps(judged.word, found["status"], config)
        return found

    def nothing(self) -> dict[str, Any]:
        """What is known before anything is known."""
        return {
            "verdict": "unknown",
            "vmid": self.wanted.vmid,
            "problems": self.problems,
            "steps": [],
            "node": self.wanted.node,
            "status": "",
            "drift": [],
            "tags": [_vm_build.OURS],
            "image_volume": self.wanted.image_volume,
        }

    def note(self, problem: str) -> None:
        """One more reason not to build."""
        if problem:
            self.problems.append(problem)

    def task_failure(self) -> str:
        """What Proxmox said of the last task of this VMID, when that failed."""
        vmid = self.wanted.vmid
        return _vm_build.task_failure(
            self.api.get("nodes", self.wanted.node, "tasks", vmid=vmid, source="all", limit=10)
        )

    def _judged(self) -> tuple[Guest | None, dict[str, Any], Verdict]:
        """Whose the VMID is, once an earlier build of it has no task left that runs."""
        holder, config, judged = self._judged_now()
        if holder is None:
            return holder, config, judged
        if judged.word == "building":
            self._await_tasks(holder.node, vmid=holder.vmid)
        elif holder.lock == "create":
            self._await_tasks(holder.node, vmid=holder.vmid, typefilter="qmcreate")
        else:
            return holder, config, judged
        return self._judged_now()

    def _judged_now(self) -> tuple[Guest | None, dict[str, Any], Verdict]:
        rows = self.api.get("cluster", "resources", type="vm")
        row = next((row for row in rows if int(row["vmid"]) == self.wanted.vmid), None)
        config = self._config(row) if row is not None else {}
        holder = Guest.from_resource(row, config) if row is not None else None
        judged = _vm_build.verdict(
            self.wanted,
            holder=holder,
            is_free=row is None and self._is_free(),
            namesakes=[
                Guest.from_resource(other)
                for other in rows
                if other.get("name") == self.wanted.name
            ],
        )
        return holder, config, judged

    def _config(self, row: dict[str, Any]) -> dict[str, Any]:
        """The configuration; with it, whether it runs: the cluster's list lags seconds behind."""
        if row.get("type") != "qemu":
            return {}
        vm = ("nodes", row["node"], "qemu", row["vmid"])
        row["status"] = self.api.get(*vm, "status", "current").get("status")
        return dict(self.api.get(*vm, "config"))

    def _is_free(self) -> bool:
        """Proxmox knows it also of guests that the token may not see."""
        try:
            self.api.get("cluster", "nextid", vmid=self.wanted.vmid)
        except ApiRefused as error:
            if error.status == 400:
                return False
            raise
        return True

    def _await_tasks(self, node: str, *, of: str = "", **which: str | int) -> None:
        """Until none of these runs; ``of`` is what the tasks are about."""
        deadline = time.monotonic() + self.task_wait_s
        while True:
            tasks = self.api.get("nodes", node, "tasks", source="active", **which)
            meant = [task for task in tasks if of in {"", task.get("id")}]
            running = sorted({str(t.get("type")) for t in meant if _vm_build.is_running(t)})
            if not running:
                return
            if time.monotonic() > deadline:
                self.note(
                    f"a task ({', '.join(running)}) of {of or f'VM {self.wanted.vmid}'} still runs "
                    f"on {node} after {self.task_wait_s} s: look at it there, then run this again"
                )
                return
            time.sleep(_POLL_S)

    def _steps(self, word: str, status: str, config: dict[str, Any]) -> list[str]:
        """What is due, and whether it can be done."""
        has_image, image_bytes = (False, 0) if word == "ours" else self._image()
        due = _vm_build.steps(
            self.wanted, word=word, has_image=has_image, status=status, config=config
        )
        self._check_rights(due)
        if "disk" in due:
            self._check_disk(has_image=has_image, image_bytes=image_bytes)
        if "create" in due:
            self._check_bridge()
            self._check_devices()
        return due

    def _check_place(self) -> None:
        """What would also stand in the way of another number; its rights are not this one's."""
        with contextlib.suppress(ApiRefused):
            has_image, image_bytes = self._image()
            self._check_disk(has_image=has_image, image_bytes=image_bytes)
            self._check_bridge()
            self._check_devices()

    def _check_disk(self, *, has_image: bool, image_bytes: int) -> None:
        self.note(
            _vm_build.image_problem(self.wanted, has_image=has_image, image_bytes=image_bytes)
        )
        self._storage(self.wanted.storage, content="images", least_bytes=image_bytes)

    def _image(self) -> tuple[bool, int]:
        """Whether the image is there, and the size of the disk inside."""
        storage = self.wanted.image_storage
        if not self._storage(storage, content="import"):
            return False, 0
        self._await_tasks(self.wanted.node, of=self.wanted.image_name, typefilter="download")
        images = ("nodes", self.wanted.node, "storage", storage, "content")
        listed = {str(row.get("volid")) for row in self.api.get(*images, content="import")}
        if self.wanted.image_volume not in listed:
            return False, 0
        return True, int(self.api.get(*images, self.wanted.image_volume).get("size") or 0)

    def _storage(self, name: str, *, content: str, least_bytes: int = 0) -> bool:
        """Whether a storage serves; of one that may not be read, the rights say so."""
        try:
            status = self.api.get("nodes", self.wanted.node, "storage", name, "status")
        except ApiRefused as error:
            if error.status == 403:
                return False
            status = None
        problem = _vm_build.storage_problem(
            self.wanted, name=name, status=status, content=content, least_bytes=least_bytes
        )
        self.note(problem)
        return not problem

    def _check_rights(self, due: list[str]) -> None:
        lacking = [right for right in _vm_build.rights(self.wanted, due) if not self._has(right)]
        if "image" in due and self.wanted.image_source == "url":
            download = _vm_build.download_right(self.wanted)
            if not self._has(download) and not self._held("/") >= {"Sys.Audit", "Sys.Modify"}:
                lacking.append(download)
        if lacking:
            self.note(_vm_build.lacking_problem(self.api.token, lacking))

    def _has(self, right: _vm_build.Right) -> bool:
        return bool(self._held(right.path) & set(right.any_of))

    def _held(self, path: str) -> frozenset[str]:
        if path not in self.held:
            held = self.api.get("access", "permissions", path=path) or {}
            self.held[path] = frozenset(held.get(path) or {})
        return self.held[path]

    def _check_bridge(self) -> None:
        """Proxmox lists the bridges that the token may use; of none, the rights say so."""
        listed = self.api.get("nodes", self.wanted.node, "network", type="any_bridge")
        bridges = [str(bridge.get("iface")) for bridge in listed]
        if bridges:
            self.note(_vm_build.bridge_problem(self.wanted, bridges))

    def _check_devices(self) -> None:
        node = self.wanted.node
        if not self.wanted.gpu_mappings:
            return
        mappings = self.api.get("cluster", "mapping", "pci", **{"check-node": node})
        users: dict[str, list[Guest]] = {}
        for row in self.api.get("cluster", "resources", type="vm"):
            if row.get("type") != "qemu" or row["node"] != node or row.get("status") != "running":
                continue
            config = self.api.get("nodes", node, "qemu", row["vmid"], "config")
            for name in _vm_devices.mappings_of(config):
                users.setdefault(name, []).append(Guest.from_resource(row))
        self.problems += _vm_devices.problems(self.wanted, mappings=mappings, users=users)
