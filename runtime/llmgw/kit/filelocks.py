"""Locks on files that end with the process that holds them, however that ends.

The lock belongs to an open descriptor, and closing that one lets go of it; it is never waited for.
A file that is only a lock stays on disk: a lock on a removed file excludes nobody.
What a taken lock means is the caller's to say.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

_PID_BYTES = 32


def open_file(path: Path, *, mode: int) -> int:
    """A descriptor of a file that is only a lock, not locked yet; ``OSError`` as ``os.open``."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)


def take(fd: int, *, is_shared: bool = False) -> bool:
    """Lock it, alone or with others who share; ``False`` while somebody else holds it."""
    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sign(fd: int) -> None:
    """Write this process into a lock that it holds, for whoever comes second."""
    with contextlib.suppress(OSError):  # a full disk: the lock holds without the name in it
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)


def signed_by(fd: int) -> int | None:
    """The process that has signed it, where that can be read."""
    text = os.pread(fd, _PID_BYTES, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
