"""Count what the gateway does, in plain integers.

``pipeline`` and ``dispatch`` record each request once, when it ends; ``server`` gives the figures
out.  Nothing is formatted here: the request's line goes on as a value to whoever writes the log.
"""

from __future__ import annotations

import bisect
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from llmgw.gateway.client_request import ClientRequest

TTFT_EDGES_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper edges of the buckets of time to first token; one more bucket has no edge."""

UNKNOWN_MODEL = "unknown"
"""Label of requests whose model nobody knows: a client's text never becomes a label."""


class State(enum.StrEnum):
    """How a request ended: an engine's 2xx is completed even when it broke off."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RequestLine(msgspec.Struct, gc=False, omit_defaults=True):
    """All that is kept of a request; absent figures stay absent."""

    at: float
    request_id: str
    method: str
    path: str
    status: int
    state: State
    total_ms: float
    model: str | None = None
    endpoint: str | None = None
    code: str | None = None
    is_stream: bool = False
    attempts: int = 0
    queue_ms: float | None = None
    ttft_ms: float | None = None
    events: int = 0
    is_truncated: bool = False


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of one moment; ``ttft_buckets`` has one count more than ``TTFT_EDGES_S``."""

    requests: Mapping[tuple[str, int], int]
    states: Mapping[str, int]
    attempts: Mapping[str, int]
    ttft_buckets: Mapping[str, tuple[int, ...]]
    ttft_sum_s: Mapping[str, float]
    inflight: int
    events: int
    truncated: int


def own_line(
    request: ClientRequest, *, status: int, code: str | None, now: float, at: float
) -> RequestLine:
    """The account of a request that no engine was needed for."""
    return RequestLine(
        at=at,
        request_id=request.request_id,
        method=request.method.decode(),
        path=request.path.decode(errors="replace"),
        status=status,
        state=State.COMPLETED if status < 400 else State.FAILED,
        total_ms=(now - request.started_at) * 1000,
        code=code,
    )


class Meter:
    """The counters of one worker."""

    __slots__ = (
        "_attempts",
        "_buckets",
        "_requests",
        "_states",
        "_ttft_sum_s",
        "_write",
        "events",
        "inflight",
        "truncated",
    )

    def __init__(self, *, write: Callable[[RequestLine], None] | None = None) -> None:
        """``write`` gets each line for the log."""
        self._write = write
        self._requests: dict[tuple[str, int], int] = {}
        self._states: dict[str, int] = {}
        self._attempts: dict[str, int] = {}
        self._buckets: dict[str, list[int]] = {}
        self._ttft_sum_s: dict[str, float] = {}
        self.inflight = 0
        self.events = 0
        self.truncated = 0

    def record(self, line: RequestLine) -> None:
        """Count a request that has ended and hand its line to the log."""
        self.count(line)
        if self._write is not None:
            self._write(line)

    def count(self, line: RequestLine) -> None:
        """Count a request that has ended."""
        model = line.model or UNKNOWN_MODEL
        key = (model, line.status)
        self._requests[key] = self._requests.get(key, 0) + 1
        self._states[line.state] = self._states.get(line.state, 0) + 1
        self.events += line.events
        self.truncated += line.is_truncated
        if line.ttft_ms is not None:
            self._observe_ttft(model, line.ttft_ms / 1000)

    def count_attempt(self, ending: str) -> None:
        """Count how an attempt ended."""
        self._attempts[ending] = self._attempts.get(ending, 0) + 1

    def stats(self) -> Stats:
        """A copy of the figures."""
        return Stats(
            requests=MappingProxyType(dict(self._requests)),
            states=MappingProxyType(dict(self._states)),
            attempts=MappingProxyType(dict(self._attempts)),
            ttft_buckets={model: tuple(counts) for model, counts in self._buckets.items()},
            ttft_sum_s=MappingProxyType(dict(self._ttft_sum_s)),
            inflight=self.inflight,
            events=self.events,
            truncated=self.truncated,
        )

    def _observe_ttft(self, model: str, ttft_s: float) -> None:
        counts = self._buckets.get(model)
        if counts is None:
            counts = self._buckets[model] = [0] * (len(TTFT_EDGES_S) + 1)
        counts[bisect.bisect_left(TTFT_EDGES_S, ttft_s)] += 1
        self._ttft_sum_s[model] = self._ttft_sum_s.get(model, 0.0) + ttft_s
