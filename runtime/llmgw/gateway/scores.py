"""The candidates of one pick, their loads, and what each would cost; pure.

``picking`` makes ``Scores`` of those that may be asked, lets affinity draw some of them nearer, and
takes the cheapest; whoever explains a decision later reads the same object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from llmgw.gateway import ranking, sessions
from llmgw.gateway.breaker import Breaker
from llmgw.gateway.costs import WEIGHTS, Curve, Standing, Weights
from llmgw.gateway.prefix import Trail

_AS_GOOD = 0.05


class Choice(Protocol):
    """What picking needs to know of an endpoint.

    ``incarnation`` is its number in the prefix tree; a ``context_length`` of ``None`` is unknown.
    """

    is_ready: bool
    weight: float
    priority: int
    salt: int
    incarnation: int
    context_length: int | None
    breaker: Breaker
    standing: Standing
    curves: Mapping[str, Curve]

    def load(self) -> float:
        """Requests that are there or on their way, those of other workers and gateways too."""
        ...


ChoiceT = TypeVar("ChoiceT", bound=Choice)


class Wish:
    """What one request asks of its endpoint beyond serving its model.

    ``key`` orders equals: of requests that should go to one endpoint it is the same.  ``trail`` is
    what is known of the prompt's head, ``None`` where nobody looked; ``session_load_factor`` is 0
    for a request without session; ``prompt_tokens`` is an estimate.
    """

    __slots__ = ("key", "prompt_tokens", "session_load_factor", "trail", "weights")

    def __init__(self, key: bytes, *, weights: Weights = WEIGHTS["chat"]) -> None:
        self.key = key
        self.weights = weights
        self.session_load_factor = 0.0
        self.trail: Trail | None = None
        self.prompt_tokens = 0


class Scores(Generic[ChoiceT]):
    """The candidates of one pick with their loads and costs, by index.

    ``mixed`` is the wish's key as ``ranking`` mixes it; ``costs`` have affinity in them once
    that was drawn in.
    """

    __slots__ = ("_mixed", "costs", "loads", "tier")

    def __init__(self, tier: Sequence[ChoiceT], wish: Wish, *, now: float, mixed: int) -> None:
        self.tier = tier
        self._mixed = mixed
        self.loads = [one.load() for one in tier]
        self.costs = self._own_costs(wish.weights, now)

    def _own_costs(self, weights: Weights, now: float) -> list[float]:
        """What each costs before any affinity."""
        profile = weights.name
        heaviest = max([one.weight for one in self.tier])
        costs = []
        for one, load in zip(self.tier, self.loads, strict=True):
            curve = one.curves[profile]
            cost = curve.slope * (load + 1) * heaviest
            cost += curve.toll if load <= curve.level_until else curve.toll_at(load)
            if not one.breaker.is_closed:
                cost += weights.half_open * one.breaker.reluctance(now)
            costs.append(cost)
        return costs

    def draw_home(self, wish: Wish) -> int:
        """Make the session's home cheaper; its index."""
        tier = self.tier
        home = sessions.home(
            [ranking.rank(one.salt, self._mixed) for one in tier],
            loads=self.loads,
            weights=[one.weight for one in tier],
            load_factor=wish.session_load_factor,
        )
        self.costs[home] -= wish.weights.session
        return home

    def draw_along(self, trail: Trail, wish: Wish) -> tuple[list[int], list[int]]:
        """Make holders of the prompt's head cheaper; all of them, and those that were."""
        incarnations = [one.incarnation for one in self.tier]
        share, held_by = trail.longest_of(incarnations)
        if not held_by:
            return [], []
        loads = self.loads
        least_load = min(loads)
        holders = [index for index, one in enumerate(incarnations) if one in held_by]
        followed = [
            one for one in holders if not trail.is_given_up_at(loads[one], least_load=least_load)
        ]
        for index in followed:
            self.costs[index] -= wish.weights.prefix * share
        return holders, followed

    def cheapest(self) -> list[int]:
        """All that cost as little as the cheapest, or not noticeably more."""
        costs = self.costs
        least = min(costs)
        edge = least + abs(least) * _AS_GOOD
        return [index for index, cost in enumerate(costs) if cost <= edge]

    def first(self) -> int:
        """The cheapest; of equals the one that comes first for the request's key."""
        equals = self.cheapest()
        if len(equals) == 1:
            return equals[0]
        tier, mixed = self.tier, self._mixed
        return max(equals, key=lambda index: ranking.rank(tier[index].salt, mixed))
