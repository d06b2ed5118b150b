"""Proxmox for a lab: the double as a program, whose VMs are hosts of the lab."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import lab
from lab import Host, Lab

HERE = Path(__file__).parent
START_WITHIN_S = 30

STARTER = """\
#!/bin/sh -e
# What a VM is when Proxmox has started it: sshd runs, and after a while cloud-init has let in who
# was named.
export CONTAINERS_CONF={conf}
podman start {container}
sleep 2
podman exec {container} systemctl is-system-running --wait
{then}
sleep 2
echo "$VM_SSH_KEYS" | podman exec -i {container} sh -ec '
    install -d -m 0700 -o ops -g ops ~ops/.ssh
    cat > ~ops/.ssh/authorized_keys
    chown ops: ~ops/.ssh/authorized_keys'
"""


@contextlib.contextmanager
def running(site: Lab, node: Host, *, then: Sequence[str] = ()) -> Iterator[Path]:
    """The double runs while the block does; yields the file that tells a playbook where.

    A VM that it starts is ``node``, on which ``then`` is run first.
    """
    folder, starter = site.folder / "proxmox", site.folder / "start-vm"
    command = f"podman exec {node.container} {' '.join(then)}" if then else ""
    conf = lab.SHARED / "containers.conf"
    starter.write_text(STARTER.format(conf=conf, container=node.container, then=command))
    starter.chmod(0o755)
    words = [sys.executable, str(HERE / "proxmox_serving.py"), str(folder)]
    with (site.folder / "proxmox.log").open("w") as log:
        double = subprocess.Popen(
            [*words, "--on-start", str(starter)], stdout=log, stderr=log, cwd=HERE
        )
    try:
        yield _written(folder / "endpoint.json", double)
    finally:
        double.terminate()
        double.wait(START_WITHIN_S)


def _written(file: Path, process: subprocess.Popen) -> Path:
    deadline = time.monotonic() + START_WITHIN_S
    while not file.is_file():
        assert process.poll() is None, "the Proxmox double ended"
        assert time.monotonic() < deadline, f"no {file}"
        time.sleep(0.2)
    return file
