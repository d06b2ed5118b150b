"""Write one line a request, in batches and off the event loop.

``serve`` makes one where INFO is wanted and gives it to the ``Gateway``.  On the way of a request a
line is a value in a list; a thread of its own formats and writes, because a standard logging call a
request would cost half of what the whole request costs, and a full pipe must never stop the loop.
"""

from __future__ import annotations

import json
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO

import orjson

from llmgw.gateway.metering import RequestLine

_BATCH_LINES = 128
_MOST_BATCHES = 256
_CLOSE_WITHIN_S = 5.0
_MOST_PATH = 256
_NEEDS_QUOTES = re.compile(r'^$|[ "=]')


class RequestLog:
    """The lines of requests on their way to ``stream``; figures of what was dropped."""

    def __init__(self, *, stream: IO[str], as_json: bool) -> None:
        self._stream = stream
        self._format: Callable[[RequestLine], str] = _json if as_json else _plain
        self._lines: list[RequestLine] = []
        self._batches: queue.Queue[list[RequestLine] | None] = queue.Queue(_MOST_BATCHES)
        self._writer: threading.Thread | None = None
        self.dropped_lines = 0

    def start(self) -> None:
        """Begin to write."""
        self._writer = threading.Thread(target=self._run, name="request-log", daemon=True)
        self._writer.start()

    def add(self, line: RequestLine) -> None:
        """Take one line; called from the event loop."""
        self._lines.append(line)
        if len(self._lines) >= _BATCH_LINES:
            self.flush()

    def flush(self) -> None:
        """Hand over what there is; lines that find the writer too far behind are counted."""
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        try:
            self._batches.put_nowait(lines)
        except queue.Full:
            self.dropped_lines += len(lines)

    def close(self) -> None:
        """Write what is left, within a bound."""
        self.flush()
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            self._batches.put(None, timeout=_CLOSE_WITHIN_S)
        except queue.Full:
            return
        writer.join(_CLOSE_WITHIN_S)

    def _run(self) -> None:
        while (lines := self._batches.get()) is not None:
            try:
                self._stream.write("".join(map(self._format, lines)))
                self._stream.flush()
            except (OSError, ValueError):
                self.dropped_lines += len(lines)  # nobody reads any more; the requests go on


def _json(line: RequestLine) -> str:
    head = {"at": line.at, "level": "info", "event": "request", "source": __name__}
    fields = {name: value for name, value in _fields(line) if value is not None}
    return orjson.dumps(head | fields).decode() + "\n"


def _plain(line: RequestLine) -> str:
    seconds, fraction = divmod(line.at, 1)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    fields = " ".join(
        [f"{name}={_word(value)}" for name, value in _fields(line) if value is not None]
    )
    return f"{stamp}.{int(fraction * 1000):03d}Z info    request {fields}\n"


def _fields(line: RequestLine) -> Iterator[tuple[str, str | float | None]]:
    yield "request_id", line.request_id
    yield "method", line.method
    yield "path", line.path[:_MOST_PATH]
    yield "model", line.model
    yield "endpoint", line.endpoint
    yield "status", line.status
    yield "code", line.code
    yield "state", line.state.value
    if line.attempts:
        yield "stream", line.is_stream
        yield "attempts", line.attempts
        yield "queue_ms", _round(line.queue_ms)
        yield "ttft_ms", _round(line.ttft_ms)
        yield "events", line.events or None
        yield "truncated", line.is_truncated or None
    yield "total_ms", _round(line.total_ms)


def _round(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 2)


def _word(value: str | float | None) -> str:
    """A value as one word; a path is a client's text and may hold anything."""
    text = str(value)
    return text if text.isprintable() and not _NEEDS_QUOTES.search(text) else json.dumps(text)
