"""A lock on a file that says who holds it.

The lock ends with the process that holds it, however that ends; the file stays and is never
removed, because a lock on a removed file excludes nobody.
Used for the server's run directory, the agent's work directory and the data folder of ``llmgw up``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from llmgw.errors import AlreadyHeld, Invalid
from llmgw.serve import holders

_PID_BYTES = 32


class HeldLock:
    """A lock that this process holds until ``release`` or its end."""

    def __init__(self, *, path: Path, fd: int) -> None:
        """Own ``fd``, which is already locked; use ``hold``."""
        self.path = path
        self._fd = fd

    def release(self) -> None:
        """Let the next process have it; releasing twice is allowed."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        """The lock itself: it is held already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release."""
        self.release()


def hold(path: Path, *, what: str) -> HeldLock:
    """Lock ``path`` or raise ``AlreadyHeld`` naming the holder; ``what`` is the thing guarded."""
    fd = _open(path, what=what)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        pid = _written_pid(fd)
        os.close(fd)
        holder = "another process" if pid is None else holders.named(pid)
        raise AlreadyHeld(f"{what} is in use by {holder} (lock {path}); stop it first") from error
    with contextlib.suppress(OSError):  # a full disk: the lock holds without the name in it
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return HeldLock(path=path, fd=fd)


def _open(path: Path, *, what: str) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        reason = errno.errorcode.get(error.errno or 0, "error")
        failed = f"{what}: cannot open {path}: {error.strerror} ({reason})"
        raise Invalid(f"{failed}; choose a folder that you may write") from error


def _written_pid(fd: int) -> int | None:
    text = os.pread(fd, _PID_BYTES, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
