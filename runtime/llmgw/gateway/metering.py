"""Count what the gateway does, in plain integers.

``pipeline``, ``dispatch`` and ``connection`` record each request once, when it has ended;
``server`` gives the figures out.  Nothing is formatted here.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llmgw.gateway.exchange import Exchange, State

TTFT_EDGES_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper edges of the buckets of time to first token; one more bucket has no edge."""

UNKNOWN_MODEL = "unknown"
"""Label of requests whose model nobody knows: a client's text never becomes a label."""


_COMPLETED, _FAILED = State.COMPLETED, State.FAILED


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of one moment; ``ttft_buckets`` has one count more than ``TTFT_EDGES_S``."""

    requests: Mapping[tuple[str, int], int]
    states: Mapping[State, int]
    failed_attempts: Mapping[str, int]
    ttft_buckets: Mapping[str, tuple[int, ...]]
    ttft_sum_s: Mapping[str, float]
    inflight: int
    events: int
    truncated: int


class _Tally:
    """The requests of one model."""

    __slots__ = ("statuses", "ttft_buckets", "ttft_sum_s")

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.ttft_buckets = [0] * (len(TTFT_EDGES_S) + 1)
        self.ttft_sum_s = 0.0


class Meter:
    """The counters of one worker."""

    __slots__ = (
        "_attempts",
        "_cancelled",
        "_completed",
        "_events",
        "_failed",
        "_tallies",
        "_truncated",
        "_write",
        "inflight",
    )

    def __init__(self, *, write: Callable[[Exchange], None] | None = None) -> None:
        """``write`` gets each request that has ended, for the log."""
        self._write = write
        self._tallies: dict[str, _Tally] = {}
        self._attempts: dict[str, int] = {}
        self._completed = self._failed = self._cancelled = 0
        self._events = self._truncated = 0
        self.inflight = 0

    def record(self, exchange: Exchange) -> None:
        """Count a request that has ended, and have its line written unless it is a mere probe."""
        if self._write is not None and not exchange.is_probe:
            self._write(exchange)
        model = exchange.model_name or UNKNOWN_MODEL
        tally = self._tallies.get(model)
        if tally is None:
            tally = self._tallies[model] = _Tally()
        tally.statuses[exchange.status] = tally.statuses.get(exchange.status, 0) + 1
        if exchange.first_byte_at:
            ttft_s = exchange.first_byte_at - exchange.sent_at
            tally.ttft_buckets[bisect.bisect_left(TTFT_EDGES_S, ttft_s)] += 1
            tally.ttft_sum_s += ttft_s
        state = exchange.state
        if state is _COMPLETED:
            self._completed += 1
        elif state is _FAILED:
            self._failed += 1
        else:
            self._cancelled += 1
        self._events += exchange.events
        self._truncated += exchange.is_truncated

    def count_attempt(self, ending: str) -> None:
        """Count how an attempt ended that did not become the answer."""
        self._attempts[ending] = self._attempts.get(ending, 0) + 1

    def stats(self) -> Stats:
        """A copy of the figures."""
        tallies = self._tallies
        return Stats(
            requests={
                (model, status): count
                for model, tally in tallies.items()
                for status, count in tally.statuses.items()
            },
            states={
                State.COMPLETED: self._completed,
                State.FAILED: self._failed,
                State.CANCELLED: self._cancelled,
            },
            failed_attempts=dict(self._attempts),
            ttft_buckets={model: tuple(tally.ttft_buckets) for model, tally in tallies.items()},
            ttft_sum_s={model: tally.ttft_sum_s for model, tally in tallies.items()},
            inflight=self.inflight,
            events=self._events,
            truncated=self._truncated,
        )
