"""Choose the endpoint for the next attempt: filter, score, pick; pure.

``dispatch`` calls ``pick`` before each send with the owners of the model as they are now, so a
round walks its candidates by their load of that moment.  Reading takes nothing: the breaker's
permit is taken afterwards.  What things cost is in ``costs`` and ``scores``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Generic

from llmgw.gateway import ranking
from llmgw.gateway.choice import Choice, ChoiceT
from llmgw.gateway.prefix import Following
from llmgw.gateway.scores import Scores, Wish

CONTEXT_SLACK: Final = 1.1
"""How far above a context length a prompt is still tried: lengths of prompts are estimates."""

_MOST_SCORED: Final = 16


class Picked(Generic[ChoiceT]):
    """An endpoint, and what became of the wish to follow a prefix.

    ``following`` is ``None`` for a wish without a trail.
    """

    __slots__ = ("choice", "following")

    def __init__(self, choice: ChoiceT, following: Following | None) -> None:
        self.choice = choice
        self.following = following


def pick(
    owners: Iterable[ChoiceT], *, tried: Collection[ChoiceT], now: float, wish: Wish
) -> Picked[ChoiceT] | None:
    """The cheapest owner that may be asked, of the highest priority that has room.

    Costs within 5 % count as equal; a hash of key and endpoint orders equals, so that every worker
    chooses alike without talking.
    """
    able = eligible(owners, tried=tried, now=now, wish=wish)
    return choose(able, now=now, wish=wish) if able else None


def choose(able: list[ChoiceT], *, now: float, wish: Wish) -> Picked[ChoiceT]:
    """As ``pick``, of those that may be asked: at least one."""
    if len(able) == 1 and wish.trail is None:
        return Picked(able[0], None)
    scores = compare(able, now=now, wish=wish)
    chosen = scores.first()
    return Picked(scores.tier[chosen], scores.following(chosen))


def compare(able: list[ChoiceT], *, now: float, wish: Wish) -> Scores[ChoiceT]:
    """What each of those that may be asked would cost; affinity is in the costs."""
    tier = _tier_with_room(able) if len(able) > 1 else able
    if not wish.weights.may_vary:
        return Scores(tier, wish, now=now, mixed=None)
    mixed = ranking.mix(wish.key)
    if len(tier) > _MOST_SCORED:
        tier = _sample(tier, wish, mixed)
    scores = Scores(tier, wish, now=now, mixed=mixed)
    if wish.session_load_factor:
        scores.draw_home(wish, mixed)
    if wish.trail is not None:
        scores.draw_along(wish.trail, wish)
    return scores


def pick_last_resort(
    owners: Iterable[ChoiceT], *, tried: Collection[ChoiceT], wish: Wish
) -> ChoiceT | None:
    """When every ready owner is left alone: the one that failed longest ago, to be probed early."""
    ready = [one for one in owners if one.is_ready and has_context_for(one, wish)]
    if any(one.breaker.is_closed for one in ready):
        return None
    free = [one for one in ready if one not in tried and one.breaker.may_be_forced()]
    return min(free, key=lambda one: one.breaker.opened_at, default=None)


def eligible(
    owners: Iterable[ChoiceT], *, tried: Collection[ChoiceT], now: float, wish: Wish
) -> list[ChoiceT]:
    """The owners that may be asked now."""
    tokens = wish.prompt_tokens
    return [
        one
        for one in owners
        if one.is_ready
        and (one.breaker.is_closed or one.breaker.may_pass(now))
        and (one.context_length is None or tokens <= one.context_length * CONTEXT_SLACK)
        and one not in tried
    ]


def has_context_for(one: Choice, wish: Wish) -> bool:
    """Whether the prompt fits, as far as that is known."""
    return one.context_length is None or wish.prompt_tokens <= one.context_length * CONTEXT_SLACK


def _tier_with_room(able: list[ChoiceT]) -> list[ChoiceT]:
    """Those of the highest priority of which not all are full; of the highest if all are."""
    first = able[0].priority
    if all(one.priority == first for one in able):
        return able
    return _first_with_room(able)


def _first_with_room(able: list[ChoiceT]) -> list[ChoiceT]:
    """The same where there are several priorities, as there rarely are."""
    priorities = {one.priority for one in able}
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
        targets.append(max(tier, key=lambda one: ranking.rank(one.salt, mixed)))
    if wish.trail is not None:
        _, holders = wish.trail.longest_of([one.incarnation for one in tier])
        targets += sorted([tier[index] for index in holders], key=lambda one: one.load())[:1]
    return sample + [one for one in dict.fromkeys(targets) if one not in sample]
