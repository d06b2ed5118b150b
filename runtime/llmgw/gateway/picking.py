"""Choose the endpoint for the next attempt: filter, score, pick; pure.

``dispatch`` calls ``pick`` before each send with the owners of the model as they are now, so a
round walks its candidates by their load of that moment.  Reading takes nothing: the breaker's
permit is taken afterwards.  What things cost is in ``costs``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from llmgw.gateway import rendezvous, sessions
from llmgw.gateway.breaker import Breaker
from llmgw.gateway.costs import WEIGHTS, Curve, Standing, Weights
from llmgw.gateway.prefix import Following, Trail

CONTEXT_SLACK = 1.1
"""How far above a context length a prompt is still tried: lengths of prompts are estimates."""

_MOST_SCORED = 16
_AS_GOOD = 0.05
_FULLEST = 2.0


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


class Picked(NamedTuple, Generic[ChoiceT]):
    """An endpoint, and what became of the wish to follow a prefix; ``None`` without a trail."""

    choice: ChoiceT
    following: Following | None


def pick(
    owners: Iterable[ChoiceT], *, tried: Collection[ChoiceT], now: float, wish: Wish
) -> Picked[ChoiceT] | None:
    """The cheapest owner that may be asked, of the highest priority that has room.

    Costs within 5 % count as equal; a hash of key and endpoint orders equals, so that every worker
    chooses alike without talking.
    """
    able = eligible(owners, tried=tried, now=now, wish=wish)
    if not able:
        return None
    tier = _tier_with_room(able)
    if not wish.weights.may_vary:
        scores = _Scores(tier, wish, now=now, mixed=0)
        return Picked(tier[scores.cheapest()[0]], None)
    mixed = rendezvous.mix(wish.key)
    if len(tier) > _MOST_SCORED:
        tier = _sample(tier, wish, mixed)
    scores = _Scores(tier, wish, now=now, mixed=mixed)
    home = scores.draw_home(wish) if wish.session_load_factor else -1
    if (trail := wish.trail) is None:
        return Picked(tier[scores.first()], None)
    holders, followed = scores.draw_along(trail, wish)
    chosen = scores.first()
    following = trail.outcome(chosen, holders=holders, followed=followed, home=home)
    return Picked(tier[chosen], following)


def pick_last_resort(
    owners: Iterable[ChoiceT], *, tried: Collection[ChoiceT], wish: Wish
) -> ChoiceT | None:
    """When every ready owner is left alone: the one that failed longest ago, to be probed early."""
    ready = [one for one in owners if one.is_ready and _has_room_for(one, wish)]
    if any(one.breaker.is_closed for one in ready):
        return None
    free = [one for one in ready if one not in tried and one.breaker.may_be_forced()]
    return min(free, key=lambda one: one.breaker.opened_at, default=None)


def eligible(
    owners: Iterable[ChoiceT], *, tried: Collection[ChoiceT], now: float, wish: Wish
) -> list[ChoiceT]:
    """The owners that may be asked now."""
    tokens = wish.prompt_tokens / CONTEXT_SLACK
    return [
        one
        for one in owners
        if one.is_ready
        and (one.breaker.is_closed or one.breaker.may_pass(now))
        and (one.context_length is None or tokens <= one.context_length)
        and one not in tried
    ]


def saturation(pool: Iterable[Choice]) -> float:
    """How full all of them are together, by weight; 1 is what they can take and stay well."""
    full = most = 0.0
    for one in pool:
        most += one.weight
        full += one.weight * min(one.standing.saturation_at(one.load()), _FULLEST)
    return full / most if most else 0.0


class _Scores:
    """The candidates of one pick with their loads and costs, by index."""

    __slots__ = ("_costs", "_loads", "_mixed", "_tier")

    def __init__(self, tier: Sequence[Choice], wish: Wish, *, now: float, mixed: int) -> None:
        self._tier = tier
        self._mixed = mixed
        self._loads = [one.load() for one in tier]
        self._costs = self._own_costs(wish.weights, now)

    def _own_costs(self, weights: Weights, now: float) -> list[float]:
        """What each costs before any affinity."""
        profile = weights.name
        heaviest = max([one.weight for one in self._tier])
        costs = []
        for one, load in zip(self._tier, self._loads, strict=True):
            curve = one.curves[profile]
            cost = curve.slope * (load + 1) * heaviest
            cost += curve.toll if load <= curve.level_until else curve.toll_at(load)
            if not one.breaker.is_closed:
                cost += weights.half_open * one.breaker.reluctance(now)
            costs.append(cost)
        return costs

    def draw_home(self, wish: Wish) -> int:
        """Make the session's home cheaper; its index."""
        tier = self._tier
        home = sessions.home(
            [rendezvous.rank(one.salt, self._mixed) for one in tier],
            loads=self._loads,
            weights=[one.weight for one in tier],
            load_factor=wish.session_load_factor,
        )
        self._costs[home] -= wish.weights.session
        return home

    def draw_along(self, trail: Trail, wish: Wish) -> tuple[list[int], list[int]]:
        """Make holders of the prompt's head cheaper; all of them, and those that were."""
        incarnations = [one.incarnation for one in self._tier]
        share, held_by = trail.longest_of(incarnations)
        if not held_by:
            return [], []
        loads = self._loads
        least_load = min(loads)
        holders = [index for index, one in enumerate(incarnations) if one in held_by]
        followed = [
            one for one in holders if not trail.is_given_up_at(loads[one], least_load=least_load)
        ]
        for index in followed:
            self._costs[index] -= wish.weights.prefix * share
        return holders, followed

    def cheapest(self) -> list[int]:
        """All that cost as little as the cheapest, or not noticeably more."""
        costs = self._costs
        least = min(costs)
        edge = least + abs(least) * _AS_GOOD
        return [index for index, cost in enumerate(costs) if cost <= edge]

    def first(self) -> int:
        """The cheapest; of equals the one that comes first for the request's key."""
        equals = self.cheapest()
        if len(equals) == 1:
            return equals[0]
        tier, mixed = self._tier, self._mixed
        return max(equals, key=lambda index: rendezvous.rank(tier[index].salt, mixed))


def _has_room_for(one: Choice, wish: Wish) -> bool:
    return one.context_length is None or wish.prompt_tokens <= one.context_length * CONTEXT_SLACK


def _tier_with_room(able: list[ChoiceT]) -> list[ChoiceT]:
    """Those of the highest priority of which not all are full; of the highest if all are."""
    priorities = {one.priority for one in able}
    if len(priorities) == 1:
        return able
    tiers = [
        [one for one in able if one.priority == priority]
        for priority in sorted(priorities, reverse=True)
    ]
    for tier in tiers:
        if any(one.standing.saturation_at(one.load()) < 1 for one in tier):
            return tier
    return tiers[0]


def _sample(tier: list[ChoiceT], wish: Wish, mixed: int) -> list[ChoiceT]:
    """A few of many, which the key draws by lot, and those that affinity is after."""
    start = mixed % len(tier)
    sample = (tier[start:] + tier[:start])[:_MOST_SCORED]
    targets = []
    if wish.session_load_factor:
        targets.append(max(tier, key=lambda one: rendezvous.rank(one.salt, mixed)))
    if wish.trail is not None:
        _, held_by = wish.trail.longest_of([one.incarnation for one in tier])
        holders = [one for one in tier if one.incarnation in held_by]
        targets += sorted(holders, key=lambda one: one.load())[:1]
    return sample + [one for one in dict.fromkeys(targets) if one not in sample]
