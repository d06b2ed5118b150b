"""A worker's account of its requests, on its way to a disk; fits ``gateway.ports.UsageSink``.

A line is on the ``slate`` before the call that brings it returns, so the line of a request that is
being sent survives the worker: whoever kills it loses nothing. A thread moves the lines to files
of the state folder in batches, and waits for the disk; a machine that loses its power loses what
the last batch had not yet brought there. While a disk is full the lines wait on the slate; what
finds no room there is counted and said.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Final

from llmgw.accounting import journal_lines, slate
from llmgw.accounting.journal_files import JournalFiles, Origin
from llmgw.domain.usage_rows import DispatchNote, UsageRow
from llmgw.errors import Invalid
from llmgw.kit import ids, logs
from llmgw.kit.metrics import Sample

FILE_BYTES: Final = 8 * 1024 * 1024
"""A file of lines is followed by the next one from this size on."""
EVERY_S: Final = 0.2
_BATCH_BYTES: Final = 1024 * 1024
_CLOSE_WITHIN_S: Final = 5.0

_log = logs.get(__name__)


class UsageJournal:
    """See the module; ``dropped_lines`` found no room."""

    def __init__(
        self,
        folder: Path,
        *,
        slates: Path,
        tag: str = "",
        file_bytes: int = FILE_BYTES,
        slate_bytes: int = slate.CAPACITY_BYTES,
        every_s: float = EVERY_S,
    ) -> None:
        """``folder`` on a disk, ``slates`` in memory; ``tag`` tells the reader whose it is.

        ``Invalid`` where a folder does not let us write.
        """
        self.dropped_lines = 0
        self._number = 0
        self._running: dict[str, int] = {}
        self._doubles: dict[str, list[int]] = {}
        """Requests whose clients gave them the id of one that runs."""
        journal_id = ids.token(8)
        self._files = JournalFiles(folder, journal_id)
        self._slate = slate.made(slates / f"{journal_id}.slate", capacity_bytes=slate_bytes)
        self._lock = self._signed(Origin(slate=str(self._slate.path), tag=tag))
        self._disk = _Disk(self._files, file_bytes=file_bytes)
        self._every_s = every_s
        self._is_wanted = threading.Event()
        self._is_over = False
        self._hurry_bytes = slate_bytes // 4
        self._mover: threading.Thread | None = None

    @property
    def running(self) -> int:
        """Requests that were sent and have not ended."""
        return len(self._running) + sum(map(len, self._doubles.values()))

    def figures(self) -> tuple[Sample, ...]:
        """Its metrics of this moment."""
        return (
            Sample("llmgw_usage_running", (), self.running),
            Sample("llmgw_usage_waiting_bytes", (), self._waiting_bytes),
            Sample("llmgw_usage_dropped_total", (), self.dropped_lines),
        )

    @property
    def _waiting_bytes(self) -> int:
        """On no disk yet; once it is closed, a reader sees to that."""
        return 0 if self._is_over else self._slate.waiting_bytes

    def start(self) -> None:
        """Begin to move lines to the disk."""
        self._mover = threading.Thread(target=self._move_on, name="usage-journal", daemon=True)
        self._mover.start()

    def dispatched(self, note: DispatchNote) -> None:
        """See ``gateway.ports.UsageSink``."""
        self._number = number = self._number + 1
        self._put(journal_lines.of_note(note, number))  # without it the other line is enough
        if note.request_id in self._running:
            self._doubles.setdefault(note.request_id, []).append(number)
        else:
            self._running[note.request_id] = number

    def ended(self, row: UsageRow) -> None:
        """See ``gateway.ports.UsageSink``."""
        number = self._ended(row.request_id)
        if number is None:
            _log.error("usage_of_unknown_request", request_id=row.request_id)
        elif not self._put(journal_lines.of_row(row, number)):
            self._drop()

    def close(self) -> None:
        """Bring everything to the disk, within a bound; what is left a reader finds."""
        if self._is_over:
            return
        self._is_over = True
        self._is_wanted.set()
        mover, self._mover = self._mover, None
        if mover is not None:
            mover.join(_CLOSE_WITHIN_S)
            if mover.is_alive():
                _log.error("usage_waits_for_disk", folder=str(self._files.folder))
                return  # the process ends soon, and with it the lock
        elif self._slate.waiting_bytes:
            self._move()
        if not self._slate.waiting_bytes:
            self._slate.path.unlink(missing_ok=True)
        self._disk.close()
        self._slate.close()
        os.close(self._lock)

    def _ended(self, request_id: str) -> int | None:
        if self._doubles and (numbers := self._doubles.get(request_id)) is not None:
            number = numbers.pop()
            if not numbers:
                del self._doubles[request_id]
            return number
        return self._running.pop(request_id, None)

    def _put(self, line: bytes) -> int:
        waiting = self._slate.put(line)
        if not waiting or waiting > self._hurry_bytes:
            self._is_wanted.set()
        return waiting

    def _drop(self) -> None:
        self.dropped_lines += 1
        if self.dropped_lines == 1 or self.dropped_lines % 1000 == 0:
            _log.error(
                "usage_dropped",
                requests=self.dropped_lines,
                means="the disk takes nothing, so what these used is not accounted",
                folder=str(self._files.folder),
            )

    def _signed(self, origin: Origin) -> int:
        folder = self._files.folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return self._files.sign(origin)
        except OSError as error:
            self._slate.path.unlink(missing_ok=True)
            raise Invalid(
                f"cannot note usage in {folder}: {error.strerror}; it must be a folder that the "
                "server may write to, with room on its disk"
            ) from error

    def _move_on(self) -> None:
        while not self._is_over:
            self._is_wanted.wait(self._every_s)
            self._is_wanted.clear()
            self._move()
            if self._disk.is_failing:
                time.sleep(self._every_s)  # whatever is wanted, it does not help to hurry
        self._move()

    def _move(self) -> None:
        while waiting := self._slate.waiting(_BATCH_BYTES):
            count = self._disk.append(waiting)
            self._slate.moved(count)
            if count < len(waiting):
                return
        self._disk.settle()


class _Disk:
    """The files of lines; says once that the disk takes nothing, and once that it does again."""

    def __init__(self, files: JournalFiles, *, file_bytes: int) -> None:
        self.is_failing = False
        self._files = files
        self._file_bytes = file_bytes
        self._number = 0
        self._fd = -1
        self._size_bytes = 0
        self._is_torn = False
        self._is_settled = True

    def append(self, lines: bytes) -> int:
        """How many of the bytes are in a file now."""
        done = 0
        try:
            self._see_to_file()
            if self._is_torn:
                self._size_bytes += os.write(self._fd, journal_lines.END)
                self._is_torn = False
            while done < len(lines):
                done += os.write(self._fd, memoryview(lines)[done:])
        except OSError as error:
            whole = lines.rfind(journal_lines.END, 0, done) + 1
            self._is_torn = self._is_torn or whole < done
            self._say(error)
            done = whole
        else:
            self._say(None)
        self._size_bytes += done
        self._is_settled = self._is_settled and not done
        return done

    def settle(self) -> None:
        """Have the disk itself keep what was appended."""
        if self._is_settled:
            return
        try:
            os.fdatasync(self._fd)
            self._is_settled = True
        except OSError as error:
            self._say(error)

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _see_to_file(self) -> None:
        if self._fd >= 0 and self._size_bytes < self._file_bytes:
            return
        path = self._files.lines(self._number + 1)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.settle()
        self.close()
        self._fd, self._number = fd, self._number + 1
        self._size_bytes, self._is_torn = 0, False

    def _say(self, error: OSError | None) -> None:
        if error is not None and not self.is_failing:
            _log.error(
                "usage_waits_for_disk",
                folder=str(self._files.folder),
                error=error.strerror,
                means="it waits in memory, which is bounded; requests go on",
            )
        elif error is None and self.is_failing:
            _log.info("usage_reaches_disk_again", folder=str(self._files.folder))
        self.is_failing = error is not None
