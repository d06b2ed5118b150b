"""Write one line a request, in batches and off the event loop.

``serve`` makes one where INFO is wanted and gives it to the ``Gateway``.  On the way of a request a
line is a value in a list; a thread of its own formats and writes, because a standard logging call a
request would cost half of what the whole request costs, and a full pipe must never stop the loop.
"""

from __future__ import annotations

import functools
import json
import queue
import threading
import time
from typing import IO

import orjson

from llmgw.gateway.exchange import MODEL_PATHS, Exchange
from llmgw.kit.clock import Clock

_BATCH_LINES = 128
_MOST_BATCHES = 256
_CLOSE_WITHIN_S = 5.0
_MOST_PATH_BYTES = 256


class RequestLog:
    """The lines of requests on their way to ``stream``; counts what had to be dropped."""

    def __init__(self, *, stream: IO[str], as_json: bool, clock: Clock) -> None:
        self._stream = stream
        self._format = _json if as_json else _plain
        self._clock = clock
        self._ended: list[Exchange] = []
        self._batches: queue.Queue[list[Exchange] | None] = queue.Queue(_MOST_BATCHES)
        self._writer: threading.Thread | None = None
        self.dropped_lines = 0

    def start(self) -> None:
        """Begin to write."""
        self._writer = threading.Thread(target=self._run, name="request-log", daemon=True)
        self._writer.start()

    def add(self, exchange: Exchange) -> None:
        """Take a request that has ended; called from the event loop."""
        self._ended.append(exchange)
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
            text = "".join([self._format(exchange, epoch_at) for exchange in batch])
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):
                self.dropped_lines += len(batch)  # nobody reads any more; the requests go on


def _plain(exchange: Exchange, epoch_at: float) -> str:
    """The line for people; one expression, because every request pays for it."""
    at = epoch_at + exchange.ended_at
    path = exchange.path.decode() if exchange.path in MODEL_PATHS else _quoted(exchange.path)
    code = f" code={exchange.code.value}" if exchange.code is not None else ""
    return (
        f"{_stamp(int(at))}.{int(at % 1 * 1000):03d}Z info    request"
        f" request_id={exchange.request_id} method={exchange.method.decode()} path={path}"
        f" status={exchange.status}{code} state={exchange.state.value}{_plain_way(exchange)}"
        f" total_ms={(exchange.ended_at - exchange.started_at) * 1000:.2f}\n"
    )


def _plain_way(exchange: Exchange) -> str:
    """What an engine did for it; absent figures stay absent."""
    if not exchange.model_name:
        return ""
    way = f" model={exchange.model_name} stream={'yes' if exchange.is_stream else 'no'}"
    if exchange.attempts:
        queue_ms = (exchange.first_sent_at - exchange.started_at) * 1000
        sent = f" queue_ms={queue_ms:.2f}" if exchange.first_sent_at else ""
        way += f" endpoint={exchange.endpoint_id} attempts={exchange.attempts}{sent}"
    if exchange.first_byte_at:
        way += f" ttft_ms={(exchange.first_byte_at - exchange.sent_at) * 1000:.2f}"
    if exchange.events:
        way += f" events={exchange.events}"
    return f"{way} truncated=yes" if exchange.is_truncated else way


def _json(exchange: Exchange, epoch_at: float) -> str:
    """The same as one object for a log collector."""
    fields: dict[str, str | float | bool | None] = {
        "at": epoch_at + exchange.ended_at,
        "level": "info",
        "event": "request",
        "request_id": exchange.request_id,
        "method": exchange.method.decode(),
        "path": exchange.path[:_MOST_PATH_BYTES].decode(errors="replace"),
        "status": exchange.status,
        "code": exchange.code,
        "state": exchange.state,
        "total_ms": _ms(exchange.started_at, exchange.ended_at),
    }
    if exchange.model_name:
        fields |= {
            "model": exchange.model_name,
            "stream": exchange.is_stream,
            "endpoint": exchange.endpoint_id or None,
            "attempts": exchange.attempts or None,
            "queue_ms": _ms(exchange.started_at, exchange.first_sent_at),
            "ttft_ms": _ms(exchange.sent_at, exchange.first_byte_at),
            "events": exchange.events or None,
            "truncated": exchange.is_truncated or None,
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
