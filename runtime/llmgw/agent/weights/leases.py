"""A lock for a folder that several hosts share, where the kernel's locks cannot be trusted.

The lock is a file that its holder makes anew (``O_EXCL`` holds on network filesystems too), signs
with host, process and a mark of its own, and rewrites every few seconds. Who waits takes it away
when it has not changed for ``STALE_S`` on its own clock, or at once when the holder was a process
of this very host that is gone. Clocks of two hosts are never compared.

What holds: two processes never both believe that they have it, except that one which slept longer
than ``STALE_S`` learns of its loss at its next block. That block does no harm: it is written at its
own place in a file of the same content (``partials``).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from llmgw.errors import AlreadyHeld
from llmgw.kit import proctable
from llmgw.kit.clock import Clock

STALE_S = 60.0
"""Also longer than a network filesystem may keep old attributes of a file."""

BEAT_S = 10.0
"""How often a holder must call ``beat``."""

_MODE = 0o644
_RECORD_BYTES = 512


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease: one process of one start of one machine, as seen in one container."""

    mark: str
    boot_id: str
    pid_namespace: str
    pid: int
    started_ticks: int


class Lease:
    """A lease that this process has."""

    def __init__(self, path: Path, *, descriptor: int, holder: Holder) -> None:
        """Use ``Leases.take``."""
        self._path = path
        self._descriptor = descriptor
        self._holder = holder
        self._beats = 0
        self._is_released = False

    def beat(self) -> None:
        """Show that the holder lives; ``AlreadyHeld`` once somebody else has it."""
        self._beats += 1
        record = json.dumps({**asdict(self._holder), "beats": self._beats})
        with contextlib.suppress(OSError):  # taken away meanwhile, which the check says
            os.pwrite(self._descriptor, record.ljust(_RECORD_BYTES).encode(), 0)
            os.fsync(self._descriptor)
        self.check()

    def check(self) -> None:
        """Raise ``AlreadyHeld`` once somebody else has it: nothing may be written any more."""
        seen = _read(self._path)
        if seen is None or seen[0] is None or seen[0].mark != self._holder.mark:
            raise AlreadyHeld(
                f"another process has taken over {self._path.name.removesuffix('.lock')}, "
                "because this one gave no sign for too long"
            )

    def release(self) -> None:
        """Give it up, if it is still ours."""
        if not self._is_released:
            self._is_released = True
            with contextlib.suppress(AlreadyHeld, OSError):
                self.check()
                self._path.unlink()
            os.close(self._descriptor)


class Leases:
    """Takes leases for this process."""

    def __init__(self, *, clock: Clock, stale_s: float = STALE_S) -> None:
        """A lease that does not change for ``stale_s`` belongs to nobody any more."""
        self._clock = clock
        self._stale_s = stale_s
        self._seen: dict[Path, tuple[str, float]] = {}

    def take(self, path: Path) -> Lease | None:
        """The lease, or nothing while somebody who lives has it."""
        lease = _make(path)
        if lease is None and self._is_abandoned(path):
            lease = _make(path)
        if lease is not None:
            self._seen.pop(path, None)
        return lease

    def _is_abandoned(self, path: Path) -> bool:
        """Whether the holder is gone; then its lock is out of the way."""
        seen = _read(path)
        if seen is None:
            return True
        holder, text = seen
        now = self._clock.monotonic()
        before, since = self._seen.get(path, ("", now))
        if text != before:
            before, since = text, now
        self._seen[path] = (before, since)
        if (holder is None or not _is_gone(holder)) and now - since < self._stale_s:
            return False
        return _take_away(path, text=text)


def _make(path: Path) -> Lease | None:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, _MODE)
    except FileExistsError:
        return None
    lease = Lease(path, descriptor=descriptor, holder=_self())
    try:
        lease.beat()
    except BaseException:
        os.close(descriptor)
        raise
    return lease


def _take_away(path: Path, *, text: str) -> bool:
    """Move an abandoned lock aside; a live one that came in between is put back."""
    aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return True
    moved = _read(aside)
    is_other = moved is not None and moved[1] != text
    if is_other:
        # Should a third have made its own by now, the one that was moved learns of its loss.
        with contextlib.suppress(OSError):
            os.link(aside, path)
    aside.unlink(missing_ok=True)
    return not is_other


def _read(path: Path) -> tuple[Holder | None, str] | None:
    """Who holds it, as far as can be read, and the text; nothing when there is no lock.

    It is opened anew each time: that is when a network filesystem looks for changes.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    try:
        record = json.loads(text)
        record.pop("beats")
        return Holder(**record), text
    except (ValueError, TypeError, KeyError, AttributeError):
        return None, text


def _self() -> Holder:
    pid = os.getpid()
    return Holder(
        mark=secrets.token_hex(16),
        boot_id=proctable.boot_id(),
        pid_namespace=_pid_namespace(),
        pid=pid,
        started_ticks=_started_ticks(pid) or 0,
    )


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _is_gone(holder: Holder) -> bool:
    """Whether it was a process that we could see, and that is not there any more."""
    if (holder.boot_id, holder.pid_namespace) != (proctable.boot_id(), _pid_namespace()):
        return False
    return _started_ticks(holder.pid) != holder.started_ticks


def _started_ticks(pid: int) -> int | None:
    """When a process started; nothing when it is gone or only a zombie."""
    found = proctable.entry(pid)
    return found.start_ticks if found is not None and found.is_running else None
