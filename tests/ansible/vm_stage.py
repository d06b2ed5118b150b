"""The stage of the tests of the role ``vm``: the Proxmox double, and a controller that plays.

The role is always run through ``ansible-playbook``, with the real modules of community.proxmox.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fakepve import FakeVm
from playing import Controller, Played
from proxmox_calls import Call
from proxmox_double import GIB, Image, ProxmoxDouble
from proxmox_serving import RIGHTS, SECRET, TOKEN

NOBLE = "noble-server-cloudimg-amd64.qcow2"
NOBLE_URL = "https://images.invalid/noble-server-cloudimg-amd64.img"
NOBLE_BYTES = 7 * GIB // 2
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE1nVx0bW9y jobs@control01"


@dataclass
class Stage:
    """One double and one controller that trusts its certificate."""

    double: ProxmoxDouble
    controller: Controller
    ca: Path

    def build(self, *words: str, **variables) -> Played:
        """Play the role for ``node05``; what it asked of the double is in the log."""
        return self.play(*words, inventory="node05,", **variables)

    def play(
        self,
        *words: str,
        inventory: str | Path,
        role: Mapping | None = None,
        environ: Mapping[str, str] | None = None,
        **variables,
    ) -> Played:
        """Play the role for all of an inventory; a variable that is None is left to that."""
        self.double.log.clear()
        values = {**self.variables, **variables}
        return self.controller.play(
            {
                "name": "The VM",
                "ansible.builtin.include_role": {"name": "llmgw.fleet.vm", **(role or {})},
            },
            {"name": "After", "ansible.builtin.debug": {"msg": "new={{ vm_is_new }}"}},
            inventory=inventory,
            hosts="all",
            words=words,
            environ=environ,
            play={"vars": {key: value for key, value in values.items() if value is not None}},
        )

    @property
    def variables(self) -> dict:
        """What an inventory would hold."""
        return {
            "vm_api_host": self.double.host,
            "vm_api_port": self.double.port,
            "vm_api_user": TOKEN.partition("!")[0],
            "vm_api_token_id": TOKEN.partition("!")[2],
            "vm_api_token_secret": SECRET,
            "vm_ca_path": str(self.ca),
            "vm_node": "pve1",
            "vm_ip": "10.0.0.145/24",
            "vm_gateway": "10.0.0.1",
            "vm_nameservers": ["10.0.0.1", "9.9.9.9"],
            "vm_user": "ops",
            "vm_ssh_keys": [KEY],
            # Nothing is to be sent to the addresses that the double's machines would have.
            "vm_allow_live_ip": True,
        }

    @property
    def writes(self) -> list[str]:
        """The calls that were not only reading, by name."""
        return [call.name for call in self.double.log.writes]

    def named(self, name: str) -> Call:
        """The only call of this name."""
        return self.double.log.named(name)

    @property
    def vm(self) -> FakeVm:
        """The VM as the double has it."""
        return self.double.vm(145)

    def finished_vm(self, **config) -> FakeVm:
        """A VM that an earlier run built, running."""
        return self.double.add_vm(
            145,
            "node05",
            status="running",
            config={
                "cores": 4,
                "memory": "8192",
                "cpu": "host",
                "tags": "llmgw;production",
                "scsi0": "local-lvm:vm-145-disk-0,discard=on,size=20G,ssd=1",
                **config,
            },
        )


def furnished(*, has_image: bool = True) -> ProxmoxDouble:
    """A double with a token that may build, and an image on the web and, mostly, in its storage."""
    double = ProxmoxDouble()
    for path, privileges in RIGHTS.items():
        double.grant(TOKEN, path, *privileges)
    double.apitokens[TOKEN] = SECRET
    double.web_files[NOBLE_URL] = Image(b"a cloud image", NOBLE_BYTES)
    if has_image:
        double.add_image(NOBLE, disk_bytes=NOBLE_BYTES)
    return double


def changes(played: Played) -> int:
    """How many tasks of the play say that they changed something."""
    return sum(int(count) for count in re.findall(r"changed=(\d+)", played.output))


def problems(played: Played) -> str:
    """What the play ended with, one sentence a line."""
    assert played.rc == 2, played.output
    failed = [told.result.get("msg") for told in played.tasks.values() if told.outcome == "failed"]
    return "\n".join(line for msg in failed for line in ([msg] if isinstance(msg, str) else msg))


class Processes:
    """What the process list of this machine shows while a block runs: arguments, environments."""

    def __init__(self):
        self._seen: set[bytes] = set()
        self._is_over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._watcher.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._watcher.join()

    @property
    def text(self) -> str:
        return b"\n".join(self._seen).decode(errors="replace")

    def _watch(self) -> None:
        while not self._is_over.wait(0.02):
            for place in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    with contextlib.suppress(OSError):
                        self._seen.add((place / name).read_bytes())
