"""Say of every owner of a model why it was chosen or not: the candidates of a receipt; pure.

Asked for only where somebody will read it, in the same step as the pick: ``picking`` decides
without a word.
"""

from __future__ import annotations

import enum
from collections.abc import Collection

from llmgw.domain.routes import EndpointState
from llmgw.gateway import picking
from llmgw.gateway.choice import Choice, ChoiceT
from llmgw.gateway.picking import Picked
from llmgw.gateway.scores import Wish
from llmgw.gateway.trail import Considered


class Reason(enum.StrEnum):
    """Why an owner was not compared with the others."""

    DRAINING = "draining"
    NOT_READY = "not_ready"
    BREAKER_OPEN = "breaker_open"
    CONTEXT = "context"
    TRIED = "tried"
    PRIORITY = "priority"
    """Another priority goes before its own, and has room."""
    NOT_DRAWN = "not_drawn"
    """There are many, and this one was not among those that were drawn by lot."""


def explain(
    owners: Collection[ChoiceT],
    *,
    tried: Collection[ChoiceT],
    now: float,
    wish: Wish,
    picked: Picked[ChoiceT] | None,
) -> tuple[Considered, ...]:
    """All owners in this decision; affinity is in the costs."""
    costs: dict[str, float] = {}
    if picked is not None:
        able = picking.eligible(owners, tried=tried, now=now, wish=wish)
        scores = picking.compare(able, now=now, wish=wish)
        costs = {
            one.facts.endpoint_id: cost for one, cost in zip(scores.tier, scores.costs, strict=True)
        }
    candidates = []
    for one in owners:
        cost = costs.get(one.facts.endpoint_id)
        reason = None
        if cost is None:
            reason = _reason(one, is_tried=one in tried, now=now, wish=wish)
            if reason is None:
                is_peer = picked is not None and picked.choice.priority == one.priority
                reason = Reason.NOT_DRAWN if is_peer else Reason.PRIORITY
        candidates.append(Considered(one.facts.endpoint_id, one.load(), cost, reason))
    return tuple(candidates)


def _reason(one: Choice, *, is_tried: bool, now: float, wish: Wish) -> Reason | None:
    """Which filter dropped it, if one did."""
    if one.facts.state is EndpointState.DRAINING:
        return Reason.DRAINING
    if not one.is_ready:
        return Reason.NOT_READY
    if is_tried:
        return Reason.TRIED
    if not (one.breaker.is_closed or one.breaker.may_pass(now)):
        return Reason.BREAKER_OPEN
    if not picking.has_context_for(one, wish):
        return Reason.CONTEXT
    return None
