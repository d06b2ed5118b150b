"""See whether a request's key lets it ask for a model, and hold what it may use of its limits.

``pipeline`` asks between knowing the model and going on to an engine, where keys are asked for.
A model that is too dear by now is replaced by the first of its fallbacks that is not.
"""

from __future__ import annotations

import math
from typing import Final

from llmgw.domain.principals import may_use
from llmgw.domain.routes import RoutedModel
from llmgw.errors import LimitReached
from llmgw.gateway import suitability
from llmgw.gateway.charging import Charges
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.grants import Grant
from llmgw.gateway.replies import Code, Refusal
from llmgw.gateway.surroundings import Surroundings

_CODES: Final = {
    "requests": Code.REQUESTS_PER_MINUTE,
    "tokens": Code.TOKENS_PER_MINUTE,
    "budget": Code.BUDGET_EXHAUSTED,
    "concurrency": Code.CONCURRENT_REQUESTS,
}


def permit(
    exchange: Exchange, grant: Grant, model: RoutedModel, shared: Surroundings
) -> RoutedModel | Refusal:
    """The model that the request may use, with what it may cost held; or why it may use none."""
    charges = shared.charges
    if charges is None:
        return model
    if not may_use(grant.principal, model.name, model.aliases):
        return Refusal(Code.MODEL_NOT_ALLOWED, param="model")
    # What can never be served must not count.
    objection = suitability.objection(
        exchange, model, checks_capabilities=shared.checks_capabilities
    )
    if objection is not None:
        return objection
    try:
        charges.reserve(exchange, grant, model)
    except LimitReached as reached:
        other = None
        if reached.limit_kind == "budget":
            other = _affordable(exchange, grant, model, shared=shared, charges=charges)
        if other is not None:
            return other
        charges.refused(grant)
        return _refusal(reached)
    return model


def _affordable(
    exchange: Exchange,
    grant: Grant,
    model: RoutedModel,
    *,
    shared: Surroundings,
    charges: Charges,
) -> RoutedModel | None:
    """A fallback that the key may use and that costs nothing of what is spent."""
    for name in model.fallbacks:
        other = shared.registry.models.get(name)
        if other is None or not may_use(grant.principal, name, other.aliases):
            continue
        if suitability.objection(exchange, other, checks_capabilities=shared.checks_capabilities):
            continue
        try:
            charges.reserve(exchange, grant, other)
        except LimitReached:
            continue
        shared.books.fell_back(exchange, to=name, reason="budget")
        exchange.fell_back_from = model.name
        exchange.model_name = name
        return other
    return None


def _refusal(reached: LimitReached) -> Refusal:
    wait_s = reached.retry_after_s
    return Refusal(
        _CODES[reached.limit_kind],
        reached.message,
        retry_after_s=None if wait_s is None else max(math.ceil(wait_s), 1),
    )
