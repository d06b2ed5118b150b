"""Write one line a request, in batches and off the event loop.

``serve`` makes one where INFO is wanted and gives it to the ``Gateway``.  A line is formatted where
its request ends, while the figures are in the processor's cache (putting them aside costs more):
a standard logging call a request would cost half of what the whole request costs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import IO, Final

import orjson

from llmgw.gateway.exchange import Exchange, State
from llmgw.gateway.line_writer import LineWriter
from llmgw.kit.clock import Clock

_MOST_PATH_BYTES: Final = 256
_MOST_KNOWN: Final = 4096
_COMPLETED: Final = State.COMPLETED


class RequestLog:
    """The lines of requests on their way to ``stream``; counts what had to be dropped."""

    def __init__(self, *, stream: IO[str], as_json: bool, clock: Clock) -> None:
        self._writer = LineWriter(lambda: stream, name="request-log")
        self._format: Callable[[Exchange, float], str] = _json if as_json else _PlainLines()
        self._clock = clock
        self._epoch_at = clock.wall() - clock.monotonic()

    @property
    def dropped_lines(self) -> int:
        """Lines that could not be written."""
        return self._writer.dropped_lines

    def start(self) -> None:
        """Begin to write."""
        self._writer.start()

    def add(self, exchange: Exchange) -> None:
        """Take the line of a request that has ended; called from the event loop."""
        self._writer.add(self._format(exchange, self._epoch_at))

    def flush(self) -> None:
        """Hand over what there is."""
        self._epoch_at = self._clock.wall() - self._clock.monotonic()
        self._writer.flush()

    def close(self) -> None:
        """Write what is left, within a bound."""
        self._writer.close()


class _PlainLines:
    """Lines for people, in whole milliseconds; absent figures stay absent.

    Most of a line is the same for all requests that one endpoint served of one model, so that part
    is kept: it is four fifths of what a line costs.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, str, str, str, int, int], str] = {}
        self._second = self._at_ms = 0
        self._begin_of_stamp = self._last_stamp = ""

    def __call__(self, exchange: Exchange, epoch_at: float) -> str:
        begun_at, ended_at = exchange.started_at, exchange.ended_at
        way = ""
        if exchange.is_stream or exchange.cut is not None or not exchange.first_byte_at:
            way = _plain_way(exchange)
        if exchange.first_byte_at:
            way = (
                f" queue_ms={int((exchange.first_sent_at - begun_at) * 1000)}"
                f" ttft_ms={int((exchange.first_byte_at - exchange.sent_at) * 1000)}{way}"
            )
        if (usage := exchange.usage) is not None:
            way += (
                f" prompt_tokens={usage.prompt_tokens} completion_tokens={usage.completion_tokens}"
            )
            if usage.cached_tokens is not None:
                way += f" cached_tokens={usage.cached_tokens}"
            if usage.is_estimated:
                way += " estimated=yes"
        return (
            f"{self._stamp(int((epoch_at + ended_at) * 1000))} info    request"
            f" request_id={exchange.request_id}{self._what(exchange)}{way}"
            f" total_ms={int((ended_at - begun_at) * 1000)}\n"
        )

    def _stamp(self, at_ms: int) -> str:
        if at_ms == self._at_ms:
            return self._last_stamp  # of several requests in one millisecond
        second = at_ms // 1000
        if second != self._second:
            self._second = second
            self._begin_of_stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        self._at_ms = at_ms
        self._last_stamp = f"{self._begin_of_stamp}.{at_ms - second * 1000:03d}Z"
        return self._last_stamp

    def _what(self, exchange: Exchange) -> str:
        if exchange.state is not _COMPLETED or not exchange.model_name:
            return _plain_what(exchange)
        key = (
            exchange.path,
            exchange.model_name,
            exchange.fell_back_from,
            exchange.endpoint_id,
            exchange.status,
            exchange.attempts,
        )
        what = self._known.get(key)
        if what is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            what = self._known[key] = _plain_what(exchange)
        return what


def _plain_what(exchange: Exchange) -> str:
    """What was asked, of whom, and how it ended."""
    what = f" method={exchange.method.decode()}"
    if exchange.model_name:
        what += f" path={exchange.path.decode()} model={exchange.model_name}"
        if exchange.fell_back_from:
            what += f" fallback_from={exchange.fell_back_from}"
    else:
        what += f" path={_quoted(exchange.path)}"
    what += f" status={exchange.status}"
    if exchange.code is not None:
        what += f" code={exchange.code}"
    what += f" state={exchange.state}"
    if exchange.attempts:
        what += f" endpoint={exchange.endpoint_id} attempts={exchange.attempts}"
    return what


def _plain_way(exchange: Exchange) -> str:
    """Figures that not every request has."""
    way = ""
    if exchange.first_sent_at and not exchange.first_byte_at:
        way += f" queue_ms={int((exchange.first_sent_at - exchange.started_at) * 1000)}"
    if exchange.is_stream:
        way += f" stream=yes events={exchange.events}"
    if exchange.lacks_done:
        way += " no_done=yes"
    return way if exchange.cut is None else f"{way} truncated={exchange.cut}"


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
            "fallback_from": exchange.fell_back_from or None,
            "stream": exchange.is_stream,
            "endpoint": exchange.endpoint_id or None,
            "attempts": exchange.attempts or None,
            "queue_ms": _ms(exchange.started_at, exchange.first_sent_at),
            "ttft_ms": _ms(exchange.sent_at, exchange.first_byte_at),
            "events": exchange.events or None,
            "no_done": exchange.lacks_done or None,
            "truncated": exchange.cut,
        }
    if (usage := exchange.usage) is not None:
        fields |= {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
            "estimated": usage.is_estimated or None,
        }
    present = {name: value for name, value in fields.items() if value is not None}
    return orjson.dumps(present).decode() + "\n"


def _ms(begin_at: float, end_at: float) -> float | None:
    """Milliseconds between two times; 0 as a time means that it never was."""
    return round((end_at - begin_at) * 1000, 3) if begin_at and end_at else None


def _quoted(path: bytes) -> str:
    """A client's path as one word that cannot pretend to be more of the log."""
    return json.dumps(path[:_MOST_PATH_BYTES].decode(errors="replace"))
