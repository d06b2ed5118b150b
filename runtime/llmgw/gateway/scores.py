"""The candidates of one pick, their loads, and what each would cost; pure.

``picking`` makes ``Scores`` of those that may be asked, lets affinity draw some of them nearer, and
takes the cheapest; whoever explains a decision later reads the same object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic

from llmgw.gateway import ranking, sessions
from llmgw.gateway.choice import ChoiceT
from llmgw.gateway.costs import WEIGHTS, Weights
from llmgw.gateway.prefix import Following, Trail

_AS_GOOD: Final = 0.05


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

    ``mixed`` is the wish's key as ``ranking`` mixes it, and orders equals; without it they keep
    their order.  ``costs`` have affinity in them once that was drawn in.
    """

    __slots__ = ("_followed", "_holders", "_home", "_mixed", "_trail", "costs", "loads", "tier")

    def __init__(
        self, tier: Sequence[ChoiceT], wish: Wish, *, now: float, mixed: int | None
    ) -> None:
        self.tier = tier
        self._mixed = mixed
        self._home = -1
        self._trail: Trail | None = None
        self._holders: list[int] = []
        self.loads: list[float] = []
        self.costs: list[float] = []
        self._score(wish.weights, now)

    def _score(self, weights: Weights, now: float) -> None:
        """Work out what each costs before any affinity."""
        profile = weights.name
        loads, costs = self.loads, self.costs
        heaviest = 0.0
        for one in self.tier:
            heaviest = max(heaviest, one.weight)
        for one in self.tier:
            load = one.load()
            curve = one.curves[profile]
            cost = curve.slope * (load + 1) * heaviest
            cost += curve.toll if load <= curve.level_until else curve.toll_at(load)
            if not one.breaker.is_closed:
                cost += weights.half_open * one.breaker.reluctance(now)
            loads.append(load)
            costs.append(cost)

    def draw_home(self, wish: Wish, mixed: int) -> None:
        """Make the session's home cheaper."""
        tier = self.tier
        self._home = home = sessions.home(
            [ranking.rank(one.salt, mixed) for one in tier],
            loads=self.loads,
            weights=[one.weight for one in tier],
            load_factor=wish.session_load_factor,
        )
        self.costs[home] -= wish.weights.session

    def draw_along(self, trail: Trail, wish: Wish) -> None:
        """Make holders of the prompt's head cheaper."""
        self._trail = trail
        self._followed: list[int] = []
        share, self._holders = trail.longest_of([one.incarnation for one in self.tier])
        if not self._holders:
            return
        loads = self.loads
        least_load = min(loads)
        for index in self._holders:
            if not trail.is_given_up_at(loads[index], least_load=least_load):
                self._followed.append(index)
                self.costs[index] -= wish.weights.prefix * share

    def first(self) -> int:
        """The cheapest, or of those that cost as good as nothing more the key's first."""
        tier, costs, mixed = self.tier, self.costs, self._mixed
        least = costs[0]
        for cost in costs:
            least = min(cost, least)
        edge = least + abs(least) * _AS_GOOD
        first = highest = -1
        for index, cost in enumerate(costs):
            if cost <= edge:
                if mixed is None:
                    return index
                rank = ranking.rank(tier[index].salt, mixed)
                if rank > highest:
                    first, highest = index, rank
        return first

    def following(self, chosen: int) -> Following | None:
        """What becomes of the wish to follow a prefix, if there is one."""
        if self._trail is None:
            return None
        return self._trail.outcome(
            chosen, holders=self._holders, followed=self._followed, home=self._home
        )
