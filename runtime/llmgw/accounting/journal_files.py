"""The files of usage journals in their folder: names, locks, and what can be told from them.

A journal has a ``.lock`` that its writer holds while it lives and that names its slate, numbered
``.lines`` that only grow, and a ``.mark`` of its reader. The lock is made first and goes last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from llmgw.kit import filelocks

FOLDER: Final = "usage"
"""Below the state folder of a server, and below its run folder for slates."""

_LOCK: Final = ".lock"
_LINES: Final = ".lines"
_MARK: Final = ".mark"


class Origin(msgspec.Struct, frozen=True):
    """Whose journal it is: where its slate lies, and what its writer is called."""

    slate: str
    tag: str = ""


@dataclass(frozen=True, slots=True)
class JournalFiles:
    """The paths of one journal."""

    folder: Path
    journal_id: str

    @property
    def lock(self) -> Path:
        """Held while the writer lives."""
        return self.folder / f"{self.journal_id}{_LOCK}"

    @property
    def mark(self) -> Path:
        """How far it was read."""
        return self.folder / f"{self.journal_id}{_MARK}"

    def lines(self, number: int) -> Path:
        """Its lines, the ``number``-th file of them."""
        return self.folder / f"{self.journal_id}.{number:06d}{_LINES}"

    def numbers(self) -> Sequence[int]:
        """Which files of lines there are."""
        names = (path.name for path in self.folder.glob(f"{self.journal_id}.*{_LINES}"))
        digits = (name.split(".")[1] for name in names)
        return sorted(int(one) for one in digits if one.isdecimal())

    def origin(self) -> Origin:
        """What the writer has said of itself; of a lock that was never signed, nothing."""
        try:
            return msgspec.json.decode(self.lock.read_bytes(), type=Origin)
        except (OSError, msgspec.MsgspecError):
            return Origin(slate="")

    def sign(self, origin: Origin) -> int:
        """Make the lock, held from its first moment on: the descriptor that holds it."""
        fresh = self.lock.with_suffix(".fresh")
        fd = filelocks.open_file(fresh, mode=0o600)
        try:
            filelocks.take(fd)
            os.pwrite(fd, msgspec.json.encode(origin), 0)
            fresh.replace(self.lock)
        except BaseException:
            os.close(fd)
            fresh.unlink(missing_ok=True)
            raise
        return fd

    def take_over(self) -> int | None:
        """The lock of a writer that lives no more, as a descriptor; nothing while it lives."""
        fd = filelocks.open_file(self.lock, mode=0o600)
        if filelocks.take(fd):
            return fd
        os.close(fd)
        return None

    def remove(self) -> None:
        """Let go of all of it."""
        for number in self.numbers():
            self.lines(number).unlink(missing_ok=True)
        self.mark.unlink(missing_ok=True)
        self.lock.unlink(missing_ok=True)


def all_in(folder: Path) -> Sequence[JournalFiles]:
    """The journals of a folder, that of a writer which has just made its lock included."""
    with contextlib.suppress(OSError):
        names = sorted(path.name for path in folder.iterdir() if path.name.endswith(_LOCK))
        return [JournalFiles(folder, name.removesuffix(_LOCK)) for name in names]
    return []
