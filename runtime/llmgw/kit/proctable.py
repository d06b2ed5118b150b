"""Reading ``/proc``: which processes there are, to whom they belong, and who listens where.

Everything here looks and changes nothing; ``processes`` acts on what it says.
Layout of the files: proc(5).
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llmgw.errors import Unsupported

_PROC = Path("/proc")
_LISTENING = "0A"
_ZOMBIE = "Z"
_PAUSED = "T"
_NS_PER_S = 1_000_000_000
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Entry:
    """One process; ``start_ticks`` and the boot id together name it for ever, its pid does not."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    start_ticks: int
    cpu_s: float = 0.0
    """Processor time of it and of its ended children."""

    @property
    def is_running(self) -> bool:
        """Not merely waiting to be reaped."""
        return self.state not in {_ZOMBIE, "X"}

    @property
    def is_paused(self) -> bool:
        """A signal has stopped it, and it does nothing until another one lets it go on."""
        return self.state == _PAUSED


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening TCP socket."""

    address: str
    port: int
    inode: int

    @property
    def is_wildcard(self) -> bool:
        """It listens on every address."""
        return ipaddress.ip_address(self.address).is_unspecified


def check_readable() -> None:
    """Raise ``Unsupported`` where processes cannot be seen; asked before an agent takes anything.

    Its engines could be neither kept nor ended.
    """
    try:
        boot_id()
        is_seen = entry(os.getpid()) is not None
    except OSError:
        is_seen = False
    if not is_seen:
        raise Unsupported(
            f"{_PROC} does not show this machine's processes, and an agent keeps its engines by "
            "it; it needs Linux with proc mounted there"
        )


def boot_id() -> str:
    """A text that is another after each boot."""
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def entry(pid: int) -> Entry | None:
    """The process of that pid, or nothing; nothing too for another user's where those are hidden.

    Engines run as the agent's own user, so none of them is ever hidden (``hidepid`` of proc(5)).
    """
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name may hold spaces and parentheses, so fields are counted from the last one.
    fields = stat.rpartition(")")[2].split()
    return Entry(
        pid=pid,
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        cpu_s=sum(map(int, fields[11:15])) / _TICKS_PER_S,
    )


def waited_s(pid: int) -> float | None:
    """How long the living threads of a process were ready to run and got no core.

    Nothing for a process that has ended, and on a kernel that does not count it.
    """
    waits: list[int] = []
    with contextlib.suppress(OSError):
        for thread in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError, IndexError, ValueError):
                waits.append(int((thread / "schedstat").read_text(encoding="ascii").split()[1]))
    return sum(waits) / _NS_PER_S if waits else None


def running() -> Iterator[Entry]:
    """Every process that has not ended."""
    for folder in _PROC.iterdir():
        pid = int(folder.name) if folder.name.isdecimal() else 0
        if pid and (found := entry(pid)) is not None and found.is_running:
            yield found


def variable(pid: int, *, name: str) -> str | None:
    """An environment variable of a process as it was started; nothing where none may be read."""
    try:
        environ = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    key = f"{name}=".encode()
    found = next((one for one in environ.split(b"\0") if one.startswith(key)), None)
    return None if found is None else os.fsdecode(found[len(key) :])


def command_name(pid: int) -> str:
    """The short name of a process, for messages."""
    try:
        return (_PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "?"


def listeners(*, port: int) -> list[Listener]:
    """Listening TCP sockets on a port, of both address families."""
    found: list[Listener] = []
    for table in ("net/tcp", "net/tcp6"):
        with contextlib.suppress(FileNotFoundError):
            lines = (_PROC / "self" / table).read_text(encoding="ascii").splitlines()[1:]
            found += [made for line in lines if (made := _listener(line, port=port)) is not None]
    return found


def socket_inodes(pid: int) -> frozenset[int]:
    """The sockets that a process holds open; empty for a process that may not be looked into."""
    inodes: set[int] = set()
    with contextlib.suppress(OSError):
        for descriptor in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError, ValueError):
                inodes.add(_socket_inode(descriptor.readlink()))
    return frozenset(inodes)


def _socket_inode(link: Path) -> int:
    return int(str(link).removeprefix("socket:[").removesuffix("]"))


def _listener(line: str, *, port: int) -> Listener | None:
    fields = line.split()
    address, _, hex_port = fields[1].partition(":")
    if fields[3] != _LISTENING or int(hex_port, 16) != port:
        return None
    return Listener(address=_address(address), port=port, inode=int(fields[9]))


def _address(written: str) -> str:
    """Addresses are written as 32-bit words in the machine's own byte order."""
    words = [bytes.fromhex(written[i : i + 8]) for i in range(0, len(written), 8)]
    raw = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    address = ipaddress.ip_address(raw)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
