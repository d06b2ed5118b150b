# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Looks at the machine that it runs on: what it has, and who holds a port. Changes nothing.

``host_info`` asks here; what is missing is said in sentences there.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11", "python3")
"""Newest first."""

_SYSTEMD = "/run/systemd/system"
"""There only where systemd runs the machine."""

_PROBE = (
    "import json, sys, ssl, venv, zlib; assert sys.version_info >= (3, 11); "
    "print(json.dumps([sys.executable, '%d.%d' % sys.version_info[:2]]))"
)
_PROBE_TIMEOUT_S = 20
_LISTENS = "0A"


@dataclass(frozen=True)
class Python:
    """A Python that llmgw can live in."""

    path: str
    version: str


def newest_python(candidates: Sequence[str] = PYTHONS) -> Python | None:
    """The first of these that is new enough and has its whole standard library."""
    for candidate in candidates:
        try:
            done = subprocess.run(  # pylint: disable=ansible-bad-function
                [candidate, "-c", _PROBE],
                check=False,
                capture_output=True,
                text=True,
                timeout=_PROBE_TIMEOUT_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return Python(*json.loads(done.stdout))
    return None


def has_systemd() -> bool:
    """Whether systemd runs this machine."""
    return Path(_SYSTEMD).is_dir()


def free_bytes(path: str) -> int:
    """What is free where the path is, or will be."""
    place = Path(path)
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def holder_of(port: int) -> str | None:
    """Who listens on the port, by service or command; ``None`` when nobody does."""
    inodes = set(_listening_inodes(port))
    if not inodes:
        return None
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and inodes & set(_socket_inodes(process)):
            return _service_of(process)
    return "another program"


def unreachable_reason(host: str, port: int, *, timeout_s: float) -> str:
    """Why no connection to there is to be had; empty when there is one."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return ""
    except socket.gaierror:
        return "its name is not known here"
    except ConnectionRefusedError:
        return "nothing listens there"
    except OSError as error:
        return os.strerror(error.errno) if error.errno else f"no answer within {timeout_s:g} s"


def knows_itself() -> bool:
    """Whether the machine's own name has an address here."""
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return False
    return True


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError as error:
            if error.errno != errno.ENOENT:  # a kernel without IPv6
                raise
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _socket_inodes(process: Path) -> Iterator[str]:
    try:
        for handle in (process / "fd").iterdir():
            target = str(handle.readlink())
            if target.startswith("socket:["):
                yield target[len("socket:[") : -1]
    except OSError:  # it ended, or is not ours to look into
        return


def _service_of(process: Path) -> str:
    """``llmgw-server`` for a process of that service, else the name of its program."""
    try:
        groups = (process / "cgroup").read_text(encoding="utf-8", errors="replace")
        name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "another program"
    for line in groups.splitlines():
        last = line.rpartition("/")[2]
        if last.endswith(".service"):
            return last[: -len(".service")]
    return name
