"""What is written down of a trial: how full the fleet was, who waited, what was done, at what cost.

Between two passes nothing of it changes, so time is added up from pass to pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from llmgw.control.reconciler import wanting
from llmgw.domain.actions import Decision, Drain, Evict, MarkFailed, Move, Place
from llmgw.domain.catalog import Catalog
from llmgw.domain.replicas import ReplicaState
from llmgw.domain.snapshots import Cluster

SPANS = 240
"""Into so many equal parts a trial is divided for its picture."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How all is, from one pass to the next."""

    cards_there: int = 0
    cards_held: int = 0
    nodes_away: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)
    """By model, how many replicas are wanted that neither start nor serve."""
    unserved: frozenset[str] = frozenset()
    """Models that are wanted and of which no replica serves."""


@dataclass(slots=True)
class Span:
    """One part of the time: seconds of what was, and how often things were done."""

    for_s: float = 0.0
    there_s: float = 0.0
    held_s: float = 0.0
    away_s: float = 0.0
    lacking_s: float = 0.0
    unserved_s: float = 0.0
    starts: int = 0
    moves: int = 0
    failures: int = 0

    @property
    def utilisation(self) -> float:
        """Share of the cards of present nodes that replicas hold."""
        return self.held_s / self.there_s if self.there_s else 0.0

    def mean(self, total_s: float) -> float:
        """The mean of something over the span."""
        return total_s / self.for_s if self.for_s else 0.0


@dataclass(slots=True)
class ModelBook:
    """What one model went through."""

    unplaced_s: float = 0.0
    """Time in which fewer of its replicas started or served than were wanted."""
    unserved_s: float = 0.0
    """Time in which it was wanted and no replica of it served."""
    starts: int = 0
    failures: int = 0
    moves: int = 0
    evictions: int = 0


class Books:
    """All figures of one trial."""

    def __init__(self, catalog: Catalog, *, for_s: float) -> None:
        """Nothing has happened yet."""
        self._catalog = catalog
        self._span_s = for_s / SPANS
        self._standing = Standing()
        self._until_s = 0.0
        self.spans = [Span() for _ in range(SPANS)]
        self.models = {name: ModelBook() for name in catalog.models}
        self.actions: Counter[str] = Counter()
        self.deciding_s: list[float] = []

    def pass_time(self, *, now: float) -> None:
        """Nothing has changed since the last pass."""
        standing, lasted_s = self._standing, now - self._until_s
        for name in standing.lacking:
            self.models[name].unplaced_s += lasted_s
        for name in standing.unserved:
            self.models[name].unserved_s += lasted_s
        at_s = self._until_s
        while at_s < now:
            number = min(int(at_s / self._span_s), SPANS - 1)
            ends_s = now if number == SPANS - 1 else min(now, (number + 1) * self._span_s)
            _add(self.spans[number], standing, max(ends_s - at_s, 1e-6))
            at_s = max(ends_s, at_s + 1e-6)
        self._until_s = now

    def note(self, decision: Decision, *, cluster: Cluster, now: float, took_s: float) -> None:
        """One pass, of which ``cluster`` is what it began with."""
        self.deciding_s.append(took_s)
        span = self.spans[min(int(now / self._span_s), SPANS - 1)]
        for action in decision.actions:
            self.actions[type(action).__name__] += 1
            match action:
                case Place():
                    span.starts += 1
                    self.models[action.replica.model].starts += 1
                case Move() | Drain() | Evict() | MarkFailed():
                    replica = cluster.replicas.get(action.replica_id)
                    if replica is not None:
                        self._note_one(action, self.models[replica.model], span)
                case _:
                    pass

    def stand(
        self,
        cluster: Cluster,
        *,
        cards_there: int,
        silent: Collection[str],
        asked: Collection[str],
    ) -> None:
        """How all is from now on."""
        have = wanting.counting(cluster.replicas.values())
        lacking: dict[str, int] = {}
        unserved: set[str] = set()
        for name, model in self._catalog.models.items():
            counting = have.get(name, ())
            wanted = wanting.wanted(model, running=len(counting), asked=asked)
            if wanted > len(counting):
                lacking[name] = wanted - len(counting)
            if wanted and not any(r.state is ReplicaState.READY for r in counting):
                unserved.add(name)
        self._standing = Standing(
            cards_there=cards_there,
            cards_held=_cards_held(cluster, silent),
            nodes_away=len(silent),
            lacking=lacking,
            unserved=frozenset(unserved - _moving(cluster)),
        )

    def _note_one(
        self, action: Move | Drain | Evict | MarkFailed, book: ModelBook, span: Span
    ) -> None:
        match action:
            case Move():
                span.moves += 1
                book.moves += 1
            case MarkFailed():
                span.failures += 1
                book.failures += 1
            case Evict():
                book.evictions += 1
            case Drain():
                pass


def share(values: Sequence[float], part: float) -> float:
    """The value below which ``part`` of all lie; 0 when there is none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def _add(span: Span, standing: Standing, lasted_s: float) -> None:
    span.for_s += lasted_s
    span.there_s += standing.cards_there * lasted_s
    span.held_s += standing.cards_held * lasted_s
    span.away_s += standing.nodes_away * lasted_s
    span.lacking_s += sum(standing.lacking.values()) * lasted_s
    span.unserved_s += len(standing.unserved) * lasted_s


def _cards_held(cluster: Cluster, silent: Collection[str]) -> int:
    return sum(
        len(shard.gpu_indices)
        for replica in cluster.replicas.values()
        for shard in replica.shards
        if shard.node_id not in silent
    )


def _moving(cluster: Cluster) -> set[str]:
    """Models of which a replica serves on until its replacement does."""
    return {
        replica.model
        for replica in cluster.replicas.values()
        if replica.is_moving and replica.state is ReplicaState.READY
    }
