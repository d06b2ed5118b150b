"""Starts the Proxmox double: in a thread of a test, or as a program for a story of several hosts.

As a program it writes what a caller needs into a folder: ``endpoint.json`` (host, port, token and
the like), ``ca.pem`` and ``calls.jsonl``, the request log. When a VM is started, a program given
with ``--on-start`` is run; what cloud-init would be told is in its environment.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from fakepve import FakeVm
from fakepve.certs import make_cert
from proxmox_calls import CallLog
from proxmox_double import Image, ProxmoxDouble

START_S = 30
TOKEN = "llmgw@pve!fleet"
SECRET = "8d1c1a6e-0000-4000-8000-proxmoxcanary"
RIGHTS = {
    "/vms": [
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
    ],
    "/storage": ["Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit"],
    "/nodes": ["Sys.AccessNetwork"],
    "/sdn/zones/localnetwork": ["SDN.Use"],
    "/mapping/pci": ["Mapping.Use"],
}
"""What the role's README asks an operator to give the token."""


@contextlib.contextmanager
def serving(double: ProxmoxDouble, folder: Path) -> Iterator[Path]:
    """The double answers while the block runs; yields the certificate to trust."""
    cert, key, _der = make_cert(str(folder), name="proxmox", hosts=(double.host,))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="proxmox-double", daemon=True)
    thread.start()

    def call(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(START_S)

    try:
        call(double.start(cert, key))
        yield Path(cert)
    finally:
        call(double.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_S)
        loop.close()


def stand_in(program: str) -> object:
    """What runs the program for a VM that was started, as the guest's cloud-init would see it."""

    def start(vm: FakeVm) -> None:
        given = dict(part.split("=", 1) for part in str(vm.config["ipconfig0"]).split(","))
        told = {
            "VM_ID": str(vm.vmid),
            "VM_NAME": vm.name,
            "VM_ADDRESS": given.get("ip", given.get("ip6", "")),
            "VM_GATEWAY": given.get("gw", given.get("gw6", "")),
            "VM_USER": str(vm.config.get("ciuser", "")),
            "VM_SSH_KEYS": unquote(str(vm.config.get("sshkeys", ""))),
        }
        subprocess.run([program], env={**os.environ, **told}, check=True)

    return start


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where endpoint.json, ca.pem and the log go")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 = any free one, in endpoint.json")
    parser.add_argument("--on-start", default="", help="program that is run for a started VM")
    parser.add_argument("--image-url", default="https://images.invalid/noble.img")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    double = ProxmoxDouble(host=args.host, port=args.port, log=CallLog(args.folder / "calls.jsonl"))
    double.time_scale = 0.01
    for path, privileges in RIGHTS.items():
        double.grant(TOKEN, path, *privileges)
    double.apitokens[TOKEN] = SECRET
    image = Image(b"a cloud image", 3584 * 1024**2)
    double.web_files[args.image_url] = image
    if args.on_start:
        double.on_start = stand_in(args.on_start)
    with serving(double, args.folder) as certificate:
        endpoint = {
            "vm_api_host": args.host,
            "vm_api_port": double.port,
            "vm_api_user": TOKEN.partition("!")[0],
            "vm_api_token_id": TOKEN.partition("!")[2],
            "vm_api_token_secret": SECRET,
            "vm_ca_path": str(certificate),
            "vm_node": "pve1",
            "vm_image_url": args.image_url,
            "vm_image_sha256": image.sha256,
        }
        written = args.folder / "endpoint.json.part"
        written.write_text(json.dumps(endpoint, indent=2), encoding="utf-8")
        written.rename(args.folder / "endpoint.json")
        threading.Event().wait()


if __name__ == "__main__":
    main()
