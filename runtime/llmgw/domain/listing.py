"""How a catalog entry appears in the gateway's table, and so to clients; pure."""

from __future__ import annotations

from llmgw.domain.catalog import Catalog, Model
from llmgw.domain.routes import ModelState, RoutedModel

OWNER = "llmgw"
SIMULATED_OWNER = "llmgw-sim"
"""Says to everybody who lists models that this one only pretends."""

MAX_FAILURE_CHARS = 300


def routed(
    model: Model,
    *,
    catalog: Catalog,
    state: ModelState,
    created_at: int,
    retry_after_s: int | None = None,
    failure: str = "",
) -> RoutedModel:
    """The entry with its fallbacks as canonical names; ``created_at`` is in seconds since 1970.

    ``failure`` is a sentence of our own: what an engine printed is not for clients.
    """
    fallbacks = (catalog.resolve(name) for name in model.fallbacks)
    return RoutedModel(
        name=model.name,
        aliases=model.aliases,
        state=state,
        created_at=created_at,
        owned_by=SIMULATED_OWNER if model.is_simulated else OWNER,
        context_length=model.context_length,
        capabilities=model.capabilities,
        description=model.description,
        price=model.price,
        fallbacks=tuple(dict.fromkeys(f.name for f in fallbacks if f is not None)),
        routing_profile=model.routing_profile,
        retry_after_s=retry_after_s,
        is_on_demand=bool(
            model.profiles and model.scaling is not None and model.scaling.is_on_demand
        ),
        failure=failure[:MAX_FAILURE_CHARS] if state is ModelState.FAILED else "",
    )
