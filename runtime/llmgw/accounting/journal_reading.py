"""Reads the lines of one usage journal in order, and remembers how far they are kept.

``ledger`` takes rows, brings them to the store, and says so; only then is a place marked and a file
let go. Whoever starts again reads on from the mark; what is read twice is kept once, for each row
bears its own name. Of the lines no more is in memory than one piece of a file and the requests that
run.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from pathlib import Path
from typing import Final

import msgspec

from llmgw.accounting import journal_lines, slate
from llmgw.accounting.journal_files import JournalFiles
from llmgw.accounting.journal_lines import Sent, Unreadable
from llmgw.domain import usage_rows
from llmgw.domain.usage_rows import UsageRow
from llmgw.kit import logs

_PIECE_BYTES: Final = 256 * 1024
_SALVAGED_BYTES: Final = 64 * 1024 * 1024

_log = logs.get(__name__)


class _Mark(msgspec.Struct, frozen=True):
    """A place between two lines, and the requests that run there."""

    number: int
    offset: int
    running: tuple[Sent, ...]


class JournalReader:
    """See the module; all of it waits for a disk."""

    def __init__(self, files: JournalFiles) -> None:
        """Go on where the last reader left its mark."""
        mark = _marked(files)
        self.journal_id = files.journal_id
        self.tag = files.origin().tag
        self.unreadable_lines = 0
        self._files = files
        self._number = mark.number
        self._offset = mark.offset
        self._running = {sent.number: sent for sent in mark.running}
        self._lines: deque[bytes] = deque()
        self._done: list[int] = []
        self._lock: int | None = None
        self.has_news = False

    @property
    def place(self) -> tuple[int, int]:
        """How far it was read: which file, and how much of it."""
        return (self._number, self._offset)

    def end(self) -> tuple[int, int]:
        """How far it can be read now."""
        last = max((*self._files.numbers(), self._number))
        try:
            return (last, self._files.lines(last).stat().st_size)
        except FileNotFoundError:
            return (last, 0)

    @property
    def is_finished(self) -> bool:
        """Its writer lives no more, so that there will be no more lines."""
        return self._lock is not None

    def look(self) -> None:
        """See whether the writer lives; of a dead one the lines on its slate are saved."""
        if self._lock is None and (lock := self._files.take_over()) is not None:
            self._salvage()
            self._lock = lock

    def rows(self, most: int) -> list[UsageRow]:
        """The next requests that have ended, up to ``most``; none: all lines are read."""
        rows: list[UsageRow] = []
        while len(rows) < most and (self._lines or self._load()):
            line = self._lines.popleft()
            self.has_news = True
            self._offset += len(line) + 1
            self._take(line, rows)
        return rows

    def lost(self) -> list[UsageRow]:
        """The requests of a finished journal of which nobody will tell the end."""
        notes = (
            journal_lines.note_of(sent, journal_id=self.journal_id)
            for sent in self._running.values()
        )
        return [usage_rows.lost(note) for note in notes]

    def mark(self) -> None:
        """All that was read is kept: remember the place, and let go of what lies before it."""
        mark = _Mark(self._number, self._offset, tuple(self._running.values()))
        _replace(self._files, msgspec.json.encode(mark), is_settled=bool(self._done))
        for number in self._done:
            self._files.lines(number).unlink(missing_ok=True)
        self._done.clear()
        self.has_news = False

    def remove(self) -> None:
        """All of a finished journal is kept, the lost requests too: let go of it."""
        self._files.remove()
        self.close()

    def close(self) -> None:
        """Leave it to the next reader."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take(self, line: bytes, rows: list[UsageRow]) -> None:
        told = journal_lines.read(line)
        if isinstance(told, Unreadable):
            self._complain()
        elif isinstance(told, Sent):
            self._running[told.number] = told
        else:
            self._running.pop(told.number, None)
            rows.append(journal_lines.row_of(told, journal_id=self.journal_id))

    def _complain(self) -> None:
        """What is cut was written once more, whole; anything else is a damaged disk."""
        self.unreadable_lines += 1
        if self.unreadable_lines == 1:
            _log.warning("usage_line_unreadable", journal=self.journal_id, file=self._number)

    def _load(self) -> bool:
        """Read on; whether there are more lines."""
        while True:
            later = [one for one in self._files.numbers() if one > self._number]
            piece = self._piece()  # after the look: a file with a successor has its last line
            whole = piece.rfind(journal_lines.END)
            if whole >= 0:
                self._lines.extend(piece[:whole].split(journal_lines.END))
                return True
            if len(piece) == _PIECE_BYTES:
                self._offset += len(piece)  # no line of ours is as long
                self._complain()
            elif later:
                self._done.append(self._number)
                self._number, self._offset, self.has_news = later[0], 0, True
            else:
                return False

    def _piece(self) -> bytes:
        try:
            with self._files.lines(self._number).open("rb") as file:
                file.seek(self._offset)
                return file.read(_PIECE_BYTES)
        except FileNotFoundError:
            return b""

    def _salvage(self) -> None:
        """Put what a dead writer left in memory into a file of its own behind the others.

        Where this is cut short it is done again; a line that is there twice counts once.
        """
        origin = self._files.origin()
        left = slate.found(Path(origin.slate)) if origin.slate else None
        if left is None:
            return
        if lines := left.waiting(_SALVAGED_BYTES):
            numbers = self._files.numbers()
            _write(self._files, number=max((*numbers, self._number)) + 1, lines=lines)
        left.close()
        left.path.unlink(missing_ok=True)


def _marked(files: JournalFiles) -> _Mark:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(files.mark.read_bytes(), type=_Mark)
    first = min(files.numbers(), default=1)
    return _Mark(first, 0, ())


def _replace(files: JournalFiles, text: bytes, *, is_settled: bool) -> None:
    fresh = files.mark.with_suffix(".mark-fresh")
    with fresh.open("wb") as file:
        file.write(text)
        if is_settled:
            file.flush()
            os.fsync(file.fileno())
    fresh.replace(files.mark)


def _write(files: JournalFiles, *, number: int, lines: bytes) -> None:
    path = files.lines(number)
    fresh = path.with_suffix(".fresh")
    with fresh.open("wb") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
