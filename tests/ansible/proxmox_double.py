"""A Proxmox VE that is not there: PyPI's fakepve, and what a build of a VM needs beyond it.

fakepve 0.5.0 holds the schema of PVE 9, checks every parameter against it in Proxmox's words, and
has logins, tasks, power and storages. It also says that elsewhere "a write succeeds and changes
nothing"; for a build those places are the ones that matter. Found and mended here:

- ``import-from`` made an empty disk at creation and was stored as plain text afterwards;
- ``resize`` answered and changed nothing, so that no rerun could see a grown disk, and none could
  be told that a disk does not shrink;
- an upload refused the content type ``import`` that its own schema lists; a download asked for
  rights on ``/`` where the schema also takes Sys.AccessNetwork on the node, overwrote files and
  checked no sum; a volume's size was that of its file, not of the disk inside;
- mappings of devices and bridges were one sample value; ``hostpci`` was not checked at all;
- ``nextid`` took no notice of a taken id, permissions at a path listed those above it instead, and
  the list of active tasks held the finished ones;
- options of cloud-init, firmware and system asked for VM.Config.HWType, a bridge for no SDN.Use;
- a VM in creation had its name and tags already, which Proxmox writes last.

Sources: the published API schema, and qemu-server, pve-storage and pve-access-control as they are
public. The double has never been held against a real Proxmox; the role's README says so too.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web
from fakepve import FakePve, FakeVm, PveError, TaskError, shapes
from fakepve.lxc import format_size
from fakepve.qemu import DRIVE_KEY, join_drive, split_drive
from fakepve.routing import die, param_error
from fakepve.server import USER, params
from proxmox_calls import Call, CallLog, Line
from proxmox_images import Image, ImagesApi, form_of

GIB = 1024**3
CLOUD_INIT = frozenset(
    {
        "cicustom",
        "cipassword",
        "citype",
        "ciupgrade",
        "ciuser",
        "nameserver",
        "searchdomain",
        "sshkeys",
    }
)
OPTIONS = frozenset(
    {
        "agent",
        "autostart",
        "bios",
        "description",
        "keyboard",
        "localtime",
        "name",
        "onboot",
        "ostype",
        "protection",
        "reboot",
        "startdate",
        "startup",
        "tags",
        "template",
    }
)
START_WITHIN_S = 30


class ProxmoxDouble(ImagesApi, FakePve):
    """One cluster with the storages ``local`` (images) and ``local-lvm`` (disks) on ``pve1``."""

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, log: CallLog | None = None):
        super().__init__(host=host, port=port)
        self.log = log or CallLog()
        self.line = Line()
        self.on_start: Callable[[FakeVm], None] | None = None
        self.start_fault: str | None = None
        self.web_files: dict[str, Image] = {}
        self.bridges = {"vmbr0"}
        self.mappings: dict[str, list[str]] = {}
        self.mapping_faults: dict[str, str] = {}
        self.storages["local"]["content"] = "iso,vztmpl,backup,import"
        self._gates: dict[str, threading.Event] = {}

    # What a test sets up

    def add_token(self, token: str, secret: str, **rights: list[str]) -> None:
        """A token with privileges by path; ``root`` stands for ``/``."""
        self.apitokens[token] = secret
        for path, privileges in rights.items():
            self.grant(token, "/" if path == "root" else path, *privileges)

    def add_image(self, name: str, *, storage: str = "local", disk_bytes: int) -> None:
        """A disk image in a storage, ready to be imported."""
        self.keep_image(storage, name, Image(b"image", disk_bytes))

    def hold(self, task_type: str) -> None:
        """Tasks of this type run until they are let go."""
        self._gates[task_type] = threading.Event()

    def let_go(self, task_type: str) -> None:
        """The tasks held back end, as they would have."""
        self._gates.pop(task_type).set()

    # The line

    def _build_app(self) -> web.Application:
        app = super()._build_app()
        app.middlewares.insert(0, self._noted)
        return app

    @web.middleware
    async def _noted(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.line.is_cut:
            return _hang_up(request)
        call = Call(request.method, request.path.removeprefix("/api2/json"), await _values(request))
        self.line.arrives(call)
        response = await handler(request)
        call = Call(call.method, call.path, call.values, response.status)
        self.log.note(call)
        self.line.leaves(call)
        return _hang_up(request) if self.line.is_cut else response

    # Tasks

    async def task(self, node, ttype, tid, user, body, vm=None, lock=True, log=()):  # noqa: FBT002
        gate = self._gates.get(ttype)
        if gate is None:
            return await super().task(node, ttype, tid, user, body, vm=vm, lock=lock, log=log)

        async def held():
            await asyncio.get_running_loop().run_in_executor(None, gate.wait)
            return await body()

        scale, self.time_scale = self.time_scale, self.time_scale or 1e-6
        try:
            return await super().task(node, ttype, tid, user, held, vm=vm, lock=lock, log=log)
        finally:
            self.time_scale = scale

    async def _task_list(self, request: web.Request) -> web.Response:
        node, user = request.match_info["node"], request[USER]
        asked = self._verify(request, await params(request))
        source = asked.get("source", "archive")
        may_see_all = self.allowed(user, f"/nodes/{node}", "Sys.Audit")
        # Those that have just ended are among the active ones until the archive has taken them.
        fresh = self.tasklog[-1:]
        found = [
            {"status": "RUNNING", **self._task_view(task, True)}
            for task in reversed(self.tasklog)
            if task["node"] == node
            and (source != "active" or task["status"] == "running" or task in fresh)
            and (source != "archive" or (task["status"] != "running" and task not in fresh))
            and asked.get("vmid") in {None, int(task["id"]) if task["id"].isdigit() else 0}
            and asked.get("typefilter") in {None, task["type"]}
            and (may_see_all or self._task_owner(user, task))
        ]
        return web.json_response({"data": found[: asked.get("limit", 50)]})

    # Rights

    def allowed(self, user, path, priv):
        if priv == "VM.Config.Cloudinit" and super().allowed(user, path, "VM.Config.Network"):
            return True
        return super().allowed(user, path, priv)

    def _config_priv(self, key):
        if key in CLOUD_INIT or key.startswith("ipconfig"):
            return "VM.Config.Cloudinit"
        if key in OPTIONS:
            return "VM.Config.Options"
        return super()._config_priv(key)

    async def _permissions(self, v, user):
        path = v.get("path")
        if path is None:
            return await super()._permissions(v, user)
        held = [priv for priv in shapes.PRIVILEGES if self.allowed(user, path, priv)]
        return {path: dict.fromkeys(held, 1)} if held else {}

    def _check_devices(self, user: str, vmid: int, values: dict[str, Any]) -> None:
        """Bridges and devices ask for more than a privilege on the VM."""
        for key, value in values.items():
            if re.fullmatch(r"net\d+", key):
                bridge = _property(value, "bridge")
                self.require(user, f"/sdn/zones/localnetwork/{bridge}", "SDN.Use")
            if re.fullmatch(r"hostpci\d+", key):
                mapping = _property(value, "mapping")
                if mapping:
                    self.require(user, f"/vms/{vmid}", "VM.Config.HWType")
                    self.require(user, f"/mapping/pci/{mapping}", "Mapping.Use")
                elif user != "root@pam":
                    raise PveError(500, f"only root can set '{key}' config for non-mapped devices")
            if DRIVE_KEY.match(key):
                self._check_import(user, key, value)

    def _check_import(self, user: str, key: str, value: str) -> None:
        source = split_drive(value)[1].get("import-from")
        if not source:
            return
        if source.startswith("/"):
            raise PveError(500, f"Only root can pass arbitrary filesystem paths. ({source})")
        sid, _, name = source.partition(":")
        vtype, owner, _format = self._parse_volname(self._store(sid), name)
        if vtype not in {"images", "import"}:
            raise param_error(
                **{key: f"{source} has wrong type '{vtype}' - needs to be 'images' or 'import'"}
            )
        self._check_access(user, sid, vtype, owner, source)

    # VMs

    def _routes_llmgw(self):
        return [
            ("GET", "/cluster/nextid", self._nextid),
            ("GET", "/cluster/mapping/pci", self._pci_mappings),
            ("GET", "/nodes/{node}/network", self._networks),
            ("PUT", "/nodes/{node}/qemu/{vmid}/resize", self._resize),
        ]

    async def _nextid(self, v, _user):
        if v.get("vmid") is not None:
            if self._qm_taken(v["vmid"]):
                raise param_error(vmid=f"VM {v['vmid']} already exists")
            return v["vmid"]
        return next(vmid for vmid in range(100, 10**6) if not self._qm_taken(vmid))

    async def _qm_create(self, v, user):
        self._check_devices(user, int(v["vmid"]), v)
        upid = await super()._qm_create(v, user)
        vm = self.vm(int(v["vmid"]))
        if vm is not None and vm.lock == "create":
            vm.name = f"VM {vm.vmid}"
        return upid

    async def _config_post(self, request: web.Request) -> web.Response:
        values = await params(request)
        self._check_devices(request[USER], self._vm(request).vmid, values)
        return await super()._config_post(request)

    async def _apply_config(self, vm, user, p):
        values = dict(p)
        self._check_devices(user, vm.vmid, values)
        made: list[str] = []
        try:
            for key in [key for key in values if DRIVE_KEY.match(key)]:
                values[key], volumes = self._qm_new_drive(vm.vmid, key, values[key], None)
                made += volumes
            await super()._apply_config(vm, user, values)
        except (PveError, TaskError):
            for volume in made:
                self._qm_free(volume)
            raise

    def _qm_new_drive(self, vmid, key, value, default):
        volume, options = split_drive(value)
        source = options.pop("import-from", None)
        if source is None:
            return super()._qm_new_drive(vmid, key, value, default)
        image = self._qm_volume(source)
        if image is None:
            raise die(f"volume '{source}' does not exist")
        size = image.get("disk_bytes", image["size"])
        made, _format = self._qm_alloc(
            volume.partition(":")[0], vmid, options.pop("format", None), size
        )
        options["size"] = format_size(size)
        return join_drive(made, options), [made]

    async def _resize(self, v, user):
        vm = self.find(v["node"], v["vmid"])
        self._check_lock(vm)

        async def body():
            if v["disk"] not in vm.config:
                raise TaskError(f"disk '{v['disk']}' does not exist")
            volume, options = split_drive(vm.config[v["disk"]])
            now, wanted = _bytes(options["size"]), _bytes(v["size"])
            if wanted < now:
                raise TaskError("shrinking disks is not supported")
            self._qm_volume(volume)["size"] = wanted
            vm.config[v["disk"]] = join_drive(volume, {**options, "size": format_size(wanted)})

        return await self.task(vm.node, "resize", vm.vmid, user, body, vm=vm)

    async def _do_start(self, vm, user, p):
        vm.start_error = self.start_fault
        upid = await super()._do_start(vm, user, p)
        if self.on_start is not None:
            threading.Thread(target=self._tell_of_start, args=(vm,), daemon=True).start()
        return upid

    def _tell_of_start(self, vm: FakeVm) -> None:
        """The task that starts a VM goes on after its call was answered."""
        deadline = time.monotonic() + START_WITHIN_S
        while vm.status != "running" and time.monotonic() < deadline:
            time.sleep(0.05)
        if vm.status == "running":
            self.on_start(vm)

    # Devices and bridges

    async def _pci_mappings(self, v, user):
        rights = ("Mapping.Use", "Mapping.Modify", "Mapping.Audit")
        found = []
        for name, devices in sorted(self.mappings.items()):
            if not any(self.allowed(user, f"/mapping/pci/{name}", right) for right in rights):
                continue
            entry = {"id": name, "map": devices, "description": ""}
            if v.get("check-node"):
                fault = self.mapping_faults.get(name)
                entry["checks"] = [{"severity": "error", "message": fault}] if fault else []
            found.append(entry)
        return found

    async def _networks(self, v, user):
        return [
            {"iface": bridge, "type": "bridge", "active": 1}
            for bridge in sorted(self.bridges)
            if self.allowed(user, f"/sdn/zones/localnetwork/{bridge}", "SDN.Use")
            or self.allowed(user, f"/sdn/zones/localnetwork/{bridge}", "SDN.Audit")
        ]


async def _values(request: web.Request) -> dict[str, Any]:
    if request.content_type == "multipart/form-data":
        fields = await form_of(request)
        return {
            key: value.decode() for key, value in fields.items() if key in {"content", "filename"}
        }
    try:
        return await params(request)
    except PveError:
        return {}


def _hang_up(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def _property(text: Any, name: str) -> str:
    found = re.search(rf"(?:^|,){name}=([^,]*)", str(text))
    return found[1] if found else ""


def _bytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([KMGT]?)", str(text)).groups()
    return int(number) * 1024 ** " KMGT".index(unit or " ")
