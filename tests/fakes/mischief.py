"""What can go wrong with an engine or a worker, done on purpose to real processes.

An engine that was harmed keeps its address; ``heal`` undoes whatever was done to it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.fakes.engines import EngineProcess, free_port, sim_words

_ESTABLISHED = "01"
_NORMAL: dict[str, Any] = {
    "hang": False,
    "hang_health": False,
    "fail_rate": 0.0,
    "cut_after_tokens": None,
}
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class BlackHole:
    """A port on which connections neither succeed nor fail: its queue is full and nobody accepts.

    Linux drops what asks for a connection then, as a firewall or a machine without power does.
    """

    def __init__(self, port: int) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", port))
        self._listener.listen(0)
        self.port = self._listener.getsockname()[1]
        self._fillers: list[socket.socket] = []
        while self._takes():
            assert len(self._fillers) < 8, "the queue does not become full"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the port back."""
        for sock in (*self._fillers, self._listener):
            sock.close()

    def _takes(self) -> bool:
        filler = socket.socket()
        filler.settimeout(0.2)
        self._fillers.append(filler)
        try:
            filler.connect(("127.0.0.1", self.port))
        except TimeoutError:
            return False
        return True


class Victim:
    """A sim engine with a fixed address, under the trouble of the moment."""

    def __init__(self, name: str, *, folder: Path, model: str = "sim", **flags: Any) -> None:
        self.name = name
        self.pids: list[int] = []
        """Every process that it ever was."""
        self.harmed: set[int] = set()
        """Those of them whose answers may have broken."""
        self._port = free_port()
        self._words = sim_words(model, listen=f"127.0.0.1:{self._port}", **flags)
        self._pace = {k: float(flags[k]) for k in ("ttft_ms", "tpot_ms")}
        self._log = folder / f"{name}.log"
        self._hole: BlackHole | None = None
        self._is_frozen = False
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Begin as a new process."""
        self.engine = EngineProcess(self._words, log=self._log, url=self.url)
        self.pids.append(self.engine.pid)

    def kill(self) -> None:
        """Connections to it are reset, and new ones refused."""
        self.harmed.add(self.engine.pid)
        self.engine.close()

    def black_hole(self) -> None:
        """As if its machine had lost its power: what knocks hears nothing."""
        self.kill()
        self._hole = BlackHole(self._port)

    def freeze(self) -> None:
        """Connections are taken by the kernel and nothing ever comes."""
        self.harmed.add(self.engine.pid)
        self._is_frozen = True
        self.engine.send(signal.SIGSTOP)

    def wedge(self) -> None:
        """It reads requests and answers none, not even ``/health``; what runs stops."""
        self.harmed.add(self.engine.pid)
        self.engine.behave(hang=True, hang_health=True)

    def cut(self) -> None:
        """Answers break off in their middle."""
        self.harmed.add(self.engine.pid)
        self.engine.behave(cut_after_tokens=3)

    def slow(self) -> None:
        """Ten times slower; healthy all the same."""
        self.engine.behave(**{k: 10 * v for k, v in self._pace.items()})

    def fail_500(self) -> None:
        self.engine.behave(fail_rate=1.0, fail_status=500)

    def fail_429(self) -> None:
        self.engine.behave(fail_rate=1.0, fail_status=429)

    def fail_404(self) -> None:
        self.engine.behave(fail_rate=1.0, fail_status=404)

    def heal(self) -> None:
        """Undo whatever was done."""
        if self._hole is not None:
            self._hole.close()
            self._hole = None
        if self._is_frozen:
            self._is_frozen = False
            self.engine.send(signal.SIGCONT)
        if self.engine.process.poll() is not None:
            self.start()
            self.engine.wait_ready()
        else:
            self.engine.behave(**_NORMAL, **self._pace)

    def close(self) -> None:
        """End it for good."""
        if self._hole is not None:
            self._hole.close()
        self.engine.close()


@dataclass(frozen=True, slots=True)
class TcpEntry:
    """One established connection as the kernel lists it; ``inode`` is 0 until it is accepted."""

    port: int
    peer_port: int
    inode: int


def connections_to(port: int) -> list[TcpEntry]:
    """Established connections whose server side has this port."""
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, ours, theirs, state, *rest = line.split()
        entry = TcpEntry(
            port=int(ours.rpartition(":")[2], 16),
            peer_port=int(theirs.rpartition(":")[2], 16),
            inode=int(rest[5]),
        )
        if state == _ESTABLISHED and entry.port == port:
            found.append(entry)
    return found


def accepted_by(pid: int, *, port: int) -> set[int]:
    """Ports of the clients whose connections to ``port`` this process holds."""
    inodes = set(_socket_inodes(pid))
    return {entry.peer_port for entry in connections_to(port) if entry.inode in inodes}


def waiting_at(port: int) -> set[int]:
    """Ports of the clients whose connections nobody has accepted yet."""
    return {entry.peer_port for entry in connections_to(port) if entry.inode == 0}


def rss_bytes(pid: int) -> int:
    """Resident memory of a process; 0 when it is gone."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def anonymous_bytes(pid: int) -> int:
    """Memory that a process made itself: neither files that it maps nor what it shares."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    (kib,) = re.findall(r"^Anonymous: +(\d+) kB$", rollup, re.MULTILINE)
    return int(kib) * 1024


def open_files(pid: int) -> int:
    """Open descriptors of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _socket_inodes(pid: int) -> Iterator[int]:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            name = str(link.readlink())
            if name.startswith("socket:["):
                yield int(name[8:-1])
