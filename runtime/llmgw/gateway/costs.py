"""What it costs to give an endpoint one more request, by the routing profile of its model; pure.

``endpoints`` works out a ``Standing`` an endpoint with each scrape, ``picking`` compares the costs
for each request.  A figure that an engine does not publish takes its term out of the cost: unknown
is neither none nor the worst.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

_MOST_SATURATION: Final = 4.0
_LEAST_DRAIN: Final = 0.05
_LONGEST_WAIT_S: Final = 30.0
_WAIT_UNIT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each thing counts for one routing profile; all but the last two make dearer.

    ``may_vary`` is false where the same snapshot has to give the same answer whatever the request:
    no affinity, and equals go by their ids.
    """

    name: str
    queue: float
    load: float
    wait: float
    kv: float
    stale: float
    half_open: float
    external: float
    prefix: float
    session: float
    may_vary: bool = True


_CHAT: Final = Weights(
    name="chat",
    queue=1,
    load=1,
    wait=0.5,
    kv=0.3,
    stale=1,
    half_open=2,
    external=1,
    prefix=1.5,
    session=2,
)

WEIGHTS: Final[Mapping[str, Weights]] = {
    one.name: one
    for one in (
        _CHAT,
        replace(
            _CHAT,
            name="batch",
            queue=0.5,
            wait=0.2,
            kv=0.5,
            stale=0.5,
            external=2,
            prefix=1,
            session=0.5,
        ),
        replace(_CHAT, name="long-context", load=0.7, wait=0.7, kv=1.5, prefix=2.5),
        replace(_CHAT, name="debug", prefix=0, session=0, may_vary=False),
    )
}
"""The weights of each routing profile that a model may name: where it differs from `chat`."""


@dataclass(frozen=True, slots=True)
class CostRules:
    """What counts as an endpoint's limit while nothing better is known of it."""

    target_waiting: float = 4.0
    kv_ceiling: float = 0.9
    default_capacity: float = 8.0
    stale_after_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Standing:
    """An endpoint as its engine described it last, in the shape that costs are made from.

    ``seen`` is what ran and waited there, ``capacity`` how many it runs at a time, ``share`` what
    its part of all load is proportional to, ``drain`` how many it ends a second, ``kv`` the part of
    its cache that is in use; ``None`` where that is not known.  ``is_capacity_proven`` says that
    the engine was seen to let requests wait, so that ``capacity`` is no guess.
    """

    seen: float = 0.0
    waiting: float = 0.0
    capacity: float = 8.0
    share: float = 8.0
    kv: float | None = None
    drain: float | None = None
    is_stale: bool = True
    is_external: bool = False
    is_capacity_proven: bool = False
    target_waiting: float = 4.0
    kv_ceiling: float = 0.9

    @classmethod
    def unseen(cls, *, weight: float, is_external: bool, rules: CostRules) -> Standing:
        """That of an endpoint which no scrape described lately; an external one never is."""
        return cls(
            capacity=rules.default_capacity * weight,
            share=rules.default_capacity * weight,
            is_stale=not is_external,
            is_external=is_external,
            target_waiting=rules.target_waiting,
            kv_ceiling=rules.kv_ceiling,
        )

    def queue_at(self, load: float) -> float:
        """How many wait there, or will once the load has arrived."""
        return 0.0 if self.is_external else max(self.waiting, load - self.capacity)

    def saturation_at(self, load: float) -> float:
        """How full it is with ``load`` requests; at 1 it has as many as it can take and be well."""
        of_queue = self.queue_at(load) / self.target_waiting
        return of_queue if self.kv is None else max(of_queue, self.kv / self.kv_ceiling)

    def pressure_at(self, load: float) -> float:
        """How full it is known to be; what may only be guessed does not count."""
        if self.is_capacity_proven:
            return self.saturation_at(load)
        return 0.0 if self.kv is None else self.kv / self.kv_ceiling


class Curve:
    """What one endpoint costs one routing profile at each load, worked out once a scrape.

    At ``load`` the cost is ``toll + slope * (load + 1)`` as long as the queue is what it was seen
    to be, which it is up to ``level_until``; from there on ``toll_at`` takes the place of ``toll``.
    """

    __slots__ = ("_standing", "_weights", "level_until", "slope", "toll")

    def __init__(self, standing: Standing, weights: Weights) -> None:
        self._standing = standing
        self._weights = weights
        self.slope = weights.load / standing.share
        self.level_until = standing.capacity + standing.waiting
        self.toll = self.toll_at(0.0)

    def toll_at(self, load: float) -> float:
        """The cost without its slope."""
        standing, weights = self._standing, self._weights
        toll = weights.queue * min(standing.saturation_at(load), _MOST_SATURATION)
        if standing.drain is not None:
            wait_s = standing.queue_at(load) / max(standing.drain, _LEAST_DRAIN)
            toll += weights.wait * min(wait_s, _LONGEST_WAIT_S) / _WAIT_UNIT_S
        if standing.kv is not None:
            toll += weights.kv * standing.kv
        return toll + weights.stale * standing.is_stale + weights.external * standing.is_external


def curves(standing: Standing) -> dict[str, Curve]:
    """The cost of an endpoint by routing profile."""
    return {name: Curve(standing, weights) for name, weights in WEIGHTS.items()}
