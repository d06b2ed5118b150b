"""See whether a model can take a request at all, and which of its fallbacks could.

``arrival`` asks before a request is queued and ``dispatch`` when its model has no engine left.
Each fallback is held to the same as the model that was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llmgw.domain.principals import may_use
from llmgw.domain.routes import RoutedModel
from llmgw.gateway import estimating, picking, refusing
from llmgw.gateway.bands import Band
from llmgw.gateway.endpoints import LiveEndpoint
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.replies import Refusal
from llmgw.gateway.scores import Wish
from llmgw.gateway.surroundings import Surroundings


class Fallback(NamedTuple):
    """Another model, and the endpoints of it that may be asked."""

    model: RoutedModel
    able: Sequence[LiveEndpoint]


def objection(
    exchange: Exchange, model: RoutedModel, *, checks_capabilities: bool
) -> Refusal | None:
    """Why the model cannot take it, whatever its engines do."""
    if checks_capabilities and model.capabilities:
        lacking = estimating.needs(exchange.body).difference(model.capabilities)
        if lacking:
            return refusing.lacks(model, sorted(lacking))
    limit_tokens = model.context_length
    if limit_tokens is not None:
        measure(exchange, limit_tokens)
        if exchange.prompt_tokens > limit_tokens * picking.CONTEXT_SLACK:
            return refusing.too_long(exchange.prompt_tokens, limit_tokens)
    return None


def measure(exchange: Exchange, limit_tokens: int) -> None:
    """Estimate the length of the prompt, unless it is short enough for the limit whatever it is."""
    if not exchange.prompt_tokens:
        surely = estimating.most_tokens(exchange.body_bytes)
        if surely > limit_tokens * picking.CONTEXT_SLACK:
            exchange.prompt_tokens = estimating.estimate_tokens(exchange.body)


def fallback_of(
    model: RoutedModel, exchange: Exchange, *, shared: Surroundings, wish: Wish, band: Band | None
) -> Fallback | None:
    """The first fallback that could take it now; with ``band`` only one that has room for that."""
    registry, now = shared.registry, shared.now()
    for name in model.fallbacks:
        other = registry.models.get(name)
        if other is None:
            continue
        if objection(exchange, other, checks_capabilities=shared.checks_capabilities) is not None:
            continue
        able = picking.eligible(registry.owners.get(name, ()), tried=(), now=now, wish=wish)
        if (
            able
            and (band is None or shared.admission.has_room(able, band))
            and _may_be_charged(exchange, other, shared)
        ):
            return Fallback(other, able)
    return None


def _may_be_charged(exchange: Exchange, other: RoutedModel, shared: Surroundings) -> bool:
    """Whether its key allows this model, and has money for it; then that is held from now on."""
    grant, charges = exchange.grant, shared.charges
    if grant is None or charges is None:
        return True
    return may_use(grant.principal, other.name, other.aliases) and charges.move(grant, other)


def fall_back(exchange: Exchange, to: RoutedModel, *, reason: str, shared: Surroundings) -> Wish:
    """Another model takes the request from now on; what it wishes there."""
    shared.books.fell_back(exchange, to=to.name, reason=reason)
    exchange.fell_back_from = exchange.model_name
    exchange.model_name = to.name
    wish = shared.affinity.wish(exchange, to, shared.now())
    wish.prompt_tokens = exchange.prompt_tokens
    return wish
