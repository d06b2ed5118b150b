"""Who may write a download: one process at a time, on this host or on all that share the folder.

``fetching`` takes a hold before the first byte and ``shelf`` before it removes something. On a
filesystem of this machine the kernel's lock is held, which ends with its process however that ends.
On a shared one it is a lease (``leases``), because network filesystems lie about locks.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from llmgw.agent.weights import leases
from llmgw.kit import filelocks
from llmgw.kit.clock import Clock

LOCK_SUFFIX = ".lock"
BEAT_S = leases.BEAT_S

_MODE = 0o644
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})


class Hold(Protocol):
    """The right to write one download."""

    def beat(self) -> None:
        """Show others that this process lives; ``AlreadyHeld`` when the right is lost."""
        ...

    def check(self) -> None:
        """Raise ``AlreadyHeld`` when the right is lost; called before each block."""
        ...

    def release(self) -> None:
        """Give the right up."""
        ...


class KernelHold:
    """A lock of the kernel; nobody can take it away while its process lives."""

    def __init__(self, path: Path, *, descriptor: int) -> None:
        """Use ``Holds.take``."""
        self._path = path
        self._descriptor = descriptor
        self._is_released = False

    def beat(self) -> None:
        """Nothing: the kernel knows."""

    def check(self) -> None:
        """Nothing: it cannot be lost."""

    def release(self) -> None:
        """Remove the lock's file while it is still ours, then let go."""
        if not self._is_released:
            self._is_released = True
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)


class Holds:
    """Takes holds for this process."""

    def __init__(
        self,
        *,
        is_shared: Callable[[str], bool],
        clock: Clock,
        stale_s: float = leases.STALE_S,
    ) -> None:
        """``is_shared`` tells whether a folder's filesystem is seen by other hosts too."""
        self._is_shared = is_shared
        self._leases = leases.Leases(clock=clock, stale_s=stale_s)

    def take(self, target: Path) -> Hold | None:
        """The right to write ``target`` and its parts, or nothing while another has it."""
        path = target.with_name(target.name + LOCK_SUFFIX)
        if self._is_shared(str(target.parent)):
            return self._leases.take(path)
        is_there = path.exists()
        descriptor = filelocks.open_file(path, mode=_MODE)
        try:
            if filelocks.take(descriptor) and _is_still(path, descriptor):
                return KernelHold(path, descriptor=descriptor)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in _NO_LOCKS:
                raise
            if not is_there:  # what we made for the kernel is in the way of a lease
                path.unlink(missing_ok=True)
            return self._leases.take(path)
        os.close(descriptor)
        return None


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the locked file still has its name: its last owner may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
