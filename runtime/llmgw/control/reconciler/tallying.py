"""Counts what passes did and how long they took, for the metrics."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator

from llmgw.control.reconciler import fleet_families, narrating
from llmgw.domain.actions import Decision
from llmgw.kit import metrics
from llmgw.kit.metrics import Sample

_EVICTION = "evict"


class Tally:
    """The counters of one process; they only rise."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self._actions: Counter[str] = Counter()
        self._buckets = [0] * (len(fleet_families.PASS_EDGES_S) + 1)
        self._took_s = 0.0

    def note(self, decision: Decision, *, took_s: float) -> None:
        """One pass has ended."""
        self._actions.update(narrating.kind(action) for action in decision.actions)
        self._buckets[bisect.bisect_left(fleet_families.PASS_EDGES_S, took_s)] += 1
        self._took_s += took_s

    def samples(self) -> Iterator[Sample]:
        """The counters now."""
        yield Sample("llmgw_pass_seconds", (), self._took_s, tuple(self._buckets))
        yield from metrics.counts("llmgw_pass_actions_total", self._actions)
        yield Sample("llmgw_evictions_total", (), self._actions[_EVICTION])
