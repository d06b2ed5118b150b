"""The flight recorder: writes every pass into files of ``<state_dir>/journal``, up to a size.

The reconciler hands passes in and never waits; writing goes on beside the event loop. Files are
only appended to, and the oldest ones go. They may hold what profiles hand to engines, so only the
server's user can read them; ``redacting`` makes copies for others.
"""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from llmgw.control.recorder import recordings
from llmgw.control.recorder.recordings import Pass, Recording
from llmgw.domain.actions import Decision
from llmgw.domain.snapshots import Snapshot
from llmgw.errors import Invalid, Unknown
from llmgw.kit import logs
from llmgw.kit.tasks import Tasks

_log = logs.get(__name__)

FOLDER = "journal"
IN_BUNDLE = "journal.jsonl"
"""What a support bundle calls it."""

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_FILES = 4
"""So many files share the size: the oldest quarter goes at a time."""
_MOST_WAITING = 64


class Journal:
    """Fits ``reconciler.ports.Recorder``."""

    def __init__(self, state_dir: Path, *, max_bytes: int) -> None:
        """Nothing is made before the first pass."""
        self._folder = state_dir / FOLDER
        self._file_bytes = max(1, max_bytes // _FILES)
        self._tasks = Tasks(owner="journal")
        self._waiting: deque[Pass] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._number = 0
        self._file: Path | None = None
        self._last: Snapshot | None = None
        """What the present file tells last; the next line says what has changed since."""
        self._is_failing = False
        self.dropped = 0
        """Passes that are not in it, because the disk was too slow or refused them."""

    def record(self, snapshot: Snapshot, decision: Decision, *, at: float) -> None:
        """Write one pass soon; it is dropped when too many wait."""
        self._number += 1
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
            return
        self._waiting.append(Pass(self._number, at=at, snapshot=snapshot, decision=decision))
        if self._writer is None or self._writer.done():
            self._writer = self._tasks.spawn("write", self._write_all())

    async def close(self) -> None:
        """Write what still waits."""
        if self._writer is not None:
            await asyncio.wait({self._writer})
        await self._tasks.close()

    async def _write_all(self) -> None:
        while self._waiting:
            one = self._waiting.popleft()
            try:
                await asyncio.to_thread(self._write, one)
                self._is_failing = False
            except OSError as error:
                self._file, self._last = None, None
                self.dropped += 1
                if not self._is_failing:
                    _log.error("pass_not_recorded", path=str(self._folder), error=str(error))
                self._is_failing = True

    def _write(self, one: Pass) -> None:
        if self._file is None or self._file.stat().st_size >= self._file_bytes:
            self._file, self._last = self._begun(), None
        text = recordings.line(one, after=self._last)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(text)
        self._last = one.snapshot

    def _begun(self) -> Path:
        """The next file, with the oldest ones gone that it leaves no room for."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)
        present = files(self._folder)
        for old in present[: max(0, len(present) - _FILES + 1)]:
            old.unlink(missing_ok=True)
        number = 1 + (_number(present[-1]) if present else 0)
        path = self._folder / f"passes-{number:06}.jsonl"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, _FILE_MODE), "w") as file:
            file.write(recordings.head())
        return path


def files(folder: Path) -> list[Path]:
    """The files of a journal, the oldest first."""
    return sorted(folder.glob("passes-*.jsonl"))


def read(path: Path) -> Iterator[Recording]:
    """The passes of a file, or of all files of a folder in their order; ``Unknown`` if none."""
    for file in _found(path):
        try:
            with _opened(file) as lines:
                yield from recordings.read(lines)
        except OSError as error:
            raise Unknown(f"cannot read {file}: {error.strerror or error}") from error
        except (Invalid, UnicodeDecodeError, tarfile.TarError) as error:
            raise Invalid(f"{file}: {error}") from error


def _found(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = files(path) or files(path / FOLDER)
    if not found:
        raise Unknown(
            f"{path} has no journal of passes (passes-*.jsonl); name the folder 'journal' in the "
            "server's state_dir, or a file of it"
        )
    return found


def _opened(file: Path) -> io.TextIOBase:
    """A file of a journal, or the one in a support bundle."""
    if not tarfile.is_tarfile(file):
        return file.open(encoding="utf-8", newline="\n")
    with tarfile.open(file) as bundle:
        names = [name for name in bundle.getnames() if name.endswith(f"/{IN_BUNDLE}")]
        found = bundle.extractfile(names[0]) if names else None
        if found is None:
            raise Invalid(f"no {IN_BUNDLE} in it")
        return io.StringIO(found.read().decode(), newline="\n")


def _number(file: Path) -> int:
    return int(file.stem.rpartition("-")[2])
