"""Names the process that holds a thing, as far as /proc lets this user see it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_LISTEN = "0A"
_SHOWN_CHARACTERS = 120


def named(pid: int) -> str:
    """``process 123 (its command line)``, without the bracket when that cannot be read."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({' '.join(w for w in words if w)[:_SHOWN_CHARACTERS]})"


def listener(port: int) -> str | None:
    """The process that listens on a TCP port; nothing when nobody does or it cannot be seen."""
    tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    links = {
        f"socket:[{inode}]" for table in tables for inode in _listening_inodes(table, port=port)
    }
    pid = next((pid for pid in _pids() if links & set(_open_files(pid))), None) if links else None
    return None if pid is None else named(pid)


def _listening_inodes(table: Path, *, port: int) -> Iterator[str]:
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
            yield fields[9]


def _pids() -> Iterator[int]:
    return (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit())


def _open_files(pid: int) -> Iterator[str]:
    try:
        fds = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return
    for fd in fds:
        try:
            yield str(fd.readlink())
        except OSError:
            continue
