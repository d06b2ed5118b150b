"""Write lines in batches and off the event loop, so that a full pipe never stops it.

``request_log`` and ``event_stream`` add lines, ``server`` has them flushed a few times a second.  A
thread of its own writes; lines that find it too far behind are dropped and counted.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import IO

from llmgw.kit import logs

_log = logs.get(__name__)

_BATCH_LINES = 1024
_MOST_BATCHES = 64
_CLOSE_WITHIN_S = 5.0


class LineWriter:
    """Lines on their way to a stream; ``open_stream`` is called in the thread, which may wait."""

    def __init__(
        self, open_stream: Callable[[], IO[str]], *, name: str, closes: bool = False
    ) -> None:
        """``closes`` where the stream is nobody else's: then the log tells that it fails."""
        self._open_stream = open_stream
        self._name = name
        self._closes = closes
        self._lines: list[str] = []
        self._batches: queue.Queue[list[str] | None] = queue.Queue(_MOST_BATCHES)
        self._writer: threading.Thread | None = None
        self.dropped_lines = 0

    def start(self) -> None:
        """Begin to write."""
        self._writer = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._writer.start()

    def add(self, line: str) -> None:
        """Take a line, its end included; called from the event loop."""
        lines = self._lines
        lines.append(line)
        if len(lines) >= _BATCH_LINES:
            self.flush()

    def flush(self) -> None:
        """Hand over what there is."""
        if not self._lines:
            return
        batch, self._lines = self._lines, []
        try:
            self._batches.put_nowait(batch)
        except queue.Full:
            self.dropped_lines += len(batch)

    def close(self) -> None:
        """Write what is left, within a bound."""
        self.flush()
        thread, self._writer = self._writer, None
        if thread is None:
            return
        try:
            self._batches.put(None, timeout=_CLOSE_WITHIN_S)
        except queue.Full:
            return
        thread.join(_CLOSE_WITHIN_S)

    def _run(self) -> None:
        stream: IO[str] | None = None
        has_failed = False
        while (batch := self._batches.get()) is not None:
            try:
                if stream is None:
                    stream = self._open_stream()
                stream.write("".join(batch))
                stream.flush()
                has_failed = False
            except (OSError, ValueError) as error:
                self.dropped_lines += len(batch)  # nobody reads any more; the requests go on
                if self._closes and not has_failed:
                    _log.error("lines_not_written", writer=self._name, error=str(error))
                has_failed = True
        if stream is not None and self._closes:
            with contextlib.suppress(OSError):
                stream.close()
