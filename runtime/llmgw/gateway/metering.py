"""Count what the gateway does, in plain integers.

``books`` and ``connection`` record each request once, when it has ended; ``server`` gives the
figures out and ``figures`` makes metrics of them.  Nothing is formatted here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from llmgw.gateway.exchange import Cut, Exchange, State
from llmgw.gateway.families import ATTEMPT_EDGES, REQUEST_EDGES_S, TTFT_EDGES_S

UNKNOWN_MODEL: Final = "unknown"
"""Label of requests whose model nobody knows: a client's text never becomes a label."""

COMMITTED: Final = "committed"
"""The outcome of the attempt that became the answer."""

# Looked up once.
_ATTEMPT_EDGES: Final = ATTEMPT_EDGES
_REQUEST_EDGES_S: Final = REQUEST_EDGES_S
_TTFT_EDGES_S: Final = TTFT_EDGES_S
_STALLS: Final = frozenset({Cut.STUCK, Cut.SILENT})
_COMPLETED: Final = State.COMPLETED
_FAILED: Final = State.FAILED


@dataclass(slots=True)
class Tally:
    """The requests of one model; lists of buckets have one count more than their edges."""

    statuses: dict[int, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    cuts: dict[Cut, int] = field(default_factory=dict)
    ttft_buckets: list[int] = field(default_factory=lambda: [0] * (len(TTFT_EDGES_S) + 1))
    ttft_sum_s: float = 0.0
    request_buckets: list[int] = field(default_factory=lambda: [0] * (len(REQUEST_EDGES_S) + 1))
    request_sum_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    has_cached_tokens: bool = False
    estimated: int = 0
    lacking_done: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of one moment; ``attempt_buckets`` has one count more than ``ATTEMPT_EDGES``.

    ``stalled`` counts, by endpoint, answers that were cut for want of progress.
    """

    by_model: Mapping[str, Tally]
    states: Mapping[State, int]
    attempt_buckets: tuple[int, ...]
    attempts: int
    inflight: int
    events: int
    truncated: int
    stalled: Mapping[str, int]

    @property
    def requests(self) -> Mapping[tuple[str, int], int]:
        """Requests that ended, by model and status."""
        return {
            (model, status): count
            for model, tally in self.by_model.items()
            for status, count in tally.statuses.items()
        }


class Meter:
    """The counters of one worker."""

    __slots__ = (
        "_attempt_buckets",
        "_attempts",
        "_cancelled",
        "_completed",
        "_events",
        "_failed",
        "_stalled",
        "_tallies",
        "_truncated",
        "_write",
        "inflight",
    )

    def __init__(self, *, write: Callable[[Exchange], None] | None = None) -> None:
        """``write`` gets each request that has ended, for the log."""
        self._write = write
        self._tallies: dict[str, Tally] = {}
        self._attempt_buckets = [0] * (len(ATTEMPT_EDGES) + 1)
        self._attempts = 0
        self._completed = self._failed = self._cancelled = 0
        self._events = self._truncated = 0
        self._stalled: dict[str, int] = {}
        self.inflight = 0

    def record(self, exchange: Exchange) -> None:
        """Count a request that has ended, and have its line written unless it is a mere probe."""
        tally = self._tally(exchange.model_name)
        tally.statuses[exchange.status] = tally.statuses.get(exchange.status, 0) + 1
        state = exchange.state
        if state is _COMPLETED:
            self._completed += 1
        elif state is _FAILED:
            self._failed += 1
        else:
            self._cancelled += 1
        if exchange.model_name:
            self._record_work(exchange, tally)
        if self._write is not None and not exchange.is_probe:
            self._write(exchange)

    def count_attempt(self, model: str, outcome: str) -> None:
        """Count how an attempt ended that did not become the answer."""
        outcomes = self._tally(model).outcomes
        outcomes[outcome] = outcomes.get(outcome, 0) + 1

    def stats(self) -> Stats:
        """A copy of the figures."""
        return Stats(
            by_model=copy.deepcopy(self._tallies),
            states={
                State.COMPLETED: self._completed,
                State.FAILED: self._failed,
                State.CANCELLED: self._cancelled,
            },
            attempt_buckets=tuple(self._attempt_buckets),
            attempts=self._attempts,
            inflight=self.inflight,
            events=self._events,
            truncated=self._truncated,
            stalled=dict(self._stalled),
        )

    def _record_work(self, exchange: Exchange, tally: Tally) -> None:
        """Count what a request for a model took and cost."""
        attempts = exchange.attempts
        self._attempt_buckets[_bucket(_ATTEMPT_EDGES, attempts)] += 1
        self._attempts += attempts
        total_s = exchange.ended_at - exchange.started_at
        tally.request_buckets[_bucket(_REQUEST_EDGES_S, total_s)] += 1
        tally.request_sum_s += total_s
        if exchange.first_byte_at:
            ttft_s = exchange.first_byte_at - exchange.sent_at
            tally.ttft_buckets[_bucket(_TTFT_EDGES_S, ttft_s)] += 1
            tally.ttft_sum_s += ttft_s
            tally.outcomes[COMMITTED] = tally.outcomes.get(COMMITTED, 0) + 1
        usage = exchange.usage
        if usage is not None:
            tally.input_tokens += usage.prompt_tokens
            tally.output_tokens += usage.completion_tokens
            tally.estimated += usage.is_estimated
            if usage.cached_tokens is not None:
                tally.has_cached_tokens = True
                tally.cached_tokens += usage.cached_tokens
        self._events += exchange.events
        if exchange.cut is not None:
            self._record_cut(exchange, exchange.cut)
        tally.lacking_done += exchange.lacks_done

    def _record_cut(self, exchange: Exchange, cut: Cut) -> None:
        self._truncated += 1
        cuts = self._tally(exchange.model_name).cuts
        cuts[cut] = cuts.get(cut, 0) + 1
        if cut in _STALLS:
            endpoint_id = exchange.endpoint_id
            self._stalled[endpoint_id] = self._stalled.get(endpoint_id, 0) + 1

    def _tally(self, model_name: str) -> Tally:
        model = model_name or UNKNOWN_MODEL
        tally = self._tallies.get(model)
        if tally is None:
            tally = self._tallies[model] = Tally()
        return tally


def _bucket(edges: tuple[float, ...], value: float) -> int:
    """Where ``value`` is counted; nearly all are in the first few buckets."""
    bucket = 0
    for edge in edges:
        if value <= edge:
            break
        bucket += 1
    return bucket
