"""A lock on a file that says who holds it.

Used for the server's run directory and the data folder of ``llmgw up``.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from llmgw.errors import AlreadyHeld, Invalid
from llmgw.kit import filelocks
from llmgw.serve import holders


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
    if not filelocks.take(fd):
        pid = filelocks.signed_by(fd)
        os.close(fd)
        holder = "another process" if pid is None else holders.named(pid)
        raise AlreadyHeld(f"{what} is in use by {holder} (lock {path}); stop it first")
    filelocks.sign(fd)
    return HeldLock(path=path, fd=fd)


def _open(path: Path, *, what: str) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return filelocks.open_file(path, mode=0o600)
    except OSError as error:
        reason = errno.errorcode.get(error.errno or 0, "error")
        failed = f"{what}: cannot open {path}: {error.strerror} ({reason})"
        raise Invalid(f"{failed}; choose a folder that you may write") from error
