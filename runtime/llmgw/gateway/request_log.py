"""Write one line a request, in batches and off the event loop.

``serve`` makes one where INFO is wanted and gives it to the ``Gateway``.  Where a request ends, its
figures are only put aside; a thread of its own formats and writes many lines at once.  A standard
logging call a request would cost half of what the whole request costs, formatting on the spot still
a fifth, and a full pipe must never stop the event loop.
"""

from __future__ import annotations

import functools
import json
import queue
import threading
import time
from typing import IO

import msgspec
import orjson

from llmgw.gateway.exchange import MODEL_PATHS, Exchange, State
from llmgw.gateway.replies import Code
from llmgw.kit.clock import Clock

_BATCH_LINES = 128
_MOST_BATCHES = 256
_CLOSE_WITHIN_S = 5.0
_MOST_PATH_BYTES = 256


class _Ended(msgspec.Struct, gc=False):
    """What an ``Exchange`` was when it ended; without it, since its memory is wanted at once."""

    request_id: str
    method: bytes
    path: bytes
    status: int
    code: Code | None
    state: State
    model_name: str
    is_stream: bool
    endpoint_id: str
    attempts: int
    events: int
    is_truncated: bool
    started_at: float
    first_sent_at: float
    sent_at: float
    first_byte_at: float
    ended_at: float


class RequestLog:
    """The lines of requests on their way to ``stream``; counts what had to be dropped."""

    def __init__(self, *, stream: IO[str], as_json: bool, clock: Clock) -> None:
        self._stream = stream
        self._format = _json if as_json else _plain
        self._clock = clock
        self._ended: list[_Ended] = []
        self._batches: queue.Queue[list[_Ended] | None] = queue.Queue(_MOST_BATCHES)
        self._writer: threading.Thread | None = None
        self.dropped_lines = 0

    def start(self) -> None:
        """Begin to write."""
        self._writer = threading.Thread(target=self._run, name="request-log", daemon=True)
        self._writer.start()

    def add(self, exchange: Exchange) -> None:
        """Take a request that has ended; called from the event loop."""
        self._ended.append(
            _Ended(
                exchange.request_id,
                exchange.method,
                exchange.path,
                exchange.status,
                exchange.code,
                exchange.state,
                exchange.model_name,
                exchange.is_stream,
                exchange.endpoint_id,
                exchange.attempts,
                exchange.events,
                exchange.is_truncated,
                exchange.started_at,
                exchange.first_sent_at,
                exchange.sent_at,
                exchange.first_byte_at,
                exchange.ended_at,
            )
        )
        if len(self._ended) >= _BATCH_LINES:
            self.flush()

    def flush(self) -> None:
        """Hand over what there is; lines that find the writer too far behind are counted."""
        if not self._ended:
            return
        batch, self._ended = self._ended, []
        try:
            self._batches.put_nowait(batch)
        except queue.Full:
            self.dropped_lines += len(batch)

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
        while (batch := self._batches.get()) is not None:
            epoch_at = self._clock.wall() - self._clock.monotonic()
            text = "".join([self._format(ended, epoch_at) for ended in batch])
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):
                self.dropped_lines += len(batch)  # nobody reads any more; the requests go on


def _plain(ended: _Ended, epoch_at: float) -> str:
    """The line for people; every request pays for it."""
    at = epoch_at + ended.ended_at
    second = int(at)
    path = ended.path.decode() if ended.path in MODEL_PATHS else _quoted(ended.path)
    code = "" if ended.code is None else f" code={ended.code}"
    return (
        f"{_stamp(second)}.{int((at - second) * 1000):03d}Z info    request"
        f" request_id={ended.request_id} method={ended.method.decode()} path={path}"
        f" status={ended.status}{code} state={ended.state}{_plain_way(ended)}"
        f" total_ms={(ended.ended_at - ended.started_at) * 1000:.2f}\n"
    )


def _plain_way(ended: _Ended) -> str:
    """What an engine did for it; absent figures stay absent."""
    if not ended.model_name:
        return ""
    way = f" model={ended.model_name} stream={'yes' if ended.is_stream else 'no'}"
    if ended.attempts:
        queue_ms = (ended.first_sent_at - ended.started_at) * 1000
        sent = f" queue_ms={queue_ms:.2f}" if ended.first_sent_at else ""
        way += f" endpoint={ended.endpoint_id} attempts={ended.attempts}{sent}"
    if ended.first_byte_at:
        way += f" ttft_ms={(ended.first_byte_at - ended.sent_at) * 1000:.2f}"
    if ended.events:
        way += f" events={ended.events}"
    return f"{way} truncated=yes" if ended.is_truncated else way


def _json(ended: _Ended, epoch_at: float) -> str:
    """The same as one object for a log collector."""
    fields: dict[str, str | float | bool | None] = {
        "at": epoch_at + ended.ended_at,
        "level": "info",
        "event": "request",
        "request_id": ended.request_id,
        "method": ended.method.decode(),
        "path": ended.path[:_MOST_PATH_BYTES].decode(errors="replace"),
        "status": ended.status,
        "code": ended.code,
        "state": ended.state,
        "total_ms": _ms(ended.started_at, ended.ended_at),
    }
    if ended.model_name:
        fields |= {
            "model": ended.model_name,
            "stream": ended.is_stream,
            "endpoint": ended.endpoint_id or None,
            "attempts": ended.attempts or None,
            "queue_ms": _ms(ended.started_at, ended.first_sent_at),
            "ttft_ms": _ms(ended.sent_at, ended.first_byte_at),
            "events": ended.events or None,
            "truncated": ended.is_truncated or None,
        }
    present = {name: value for name, value in fields.items() if value is not None}
    return orjson.dumps(present).decode() + "\n"


def _ms(begin_at: float, end_at: float) -> float | None:
    """Milliseconds between two times; 0 as a time means that it never was."""
    return round((end_at - begin_at) * 1000, 3) if begin_at and end_at else None


def _quoted(path: bytes) -> str:
    """A client's path as one word that cannot pretend to be more of the log."""
    return json.dumps(path[:_MOST_PATH_BYTES].decode(errors="replace"))


@functools.lru_cache(maxsize=4)
def _stamp(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
