"""What the gateway may send to: endpoints, and the table of models, pushed as one value."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.domain.pricing import Price

EXTERNAL = "external"
"""The engine of an endpoint that is a provider's: nothing is known of it but its answers."""


class EndpointState(enum.StrEnum):
    """Whether new work may go there."""

    READY = "ready"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One upstream address with its static facts; ``url`` has a scheme and no trailing slash."""

    endpoint_id: str
    url: str
    models: tuple[str, ...]
    engine: str = ""
    node_id: str = ""
    pool: str = ""
    weight: float = 1.0
    priority: int = 0
    state: EndpointState = EndpointState.READY
    api_key: str = field(default="", repr=False)
    upstream_model: str = ""
    context_length: int | None = None
    capabilities: tuple[str, ...] = ()
    usage_injection: bool = True
    """Whether its streams may be asked for their usage where the client did not ask."""


class ModelState(enum.StrEnum):
    """What a request for a model without a ready endpoint is told."""

    READY = "ready"
    LOADING = "loading"
    ON_DEMAND = "on_demand"
    NOT_PLACED = "not_placed"
    FAILED = "failed"
    """Nothing of it runs or starts, and the last start failed; it is tried again later."""


@dataclass(frozen=True, slots=True)
class RoutedModel:
    """One catalog entry as the gateway needs it: names, state, and what ``/v1/models`` shows."""

    name: str
    aliases: tuple[str, ...] = ()
    state: ModelState = ModelState.NOT_PLACED
    created_at: int = 0
    owned_by: str = "llmgw"
    context_length: int | None = None
    capabilities: tuple[str, ...] = ()
    description: str | None = None
    fallbacks: tuple[str, ...] = ()
    routing_profile: str = ""
    retry_after_s: int | None = None
    ready_expected_at: float | None = None
    """When it will probably serve, in seconds since 1970; only while it loads, where known."""
    is_on_demand: bool = False
    """Whether it is loaded when somebody asks for it, and unloaded when nobody does."""
    failure: str = ""
    """Why the last start failed, in words that clients may read; only in the state FAILED."""
    price: Price | None = None
    """Its own; absent: as the settings list it."""


@dataclass(frozen=True, slots=True)
class RouteTable:
    """All endpoints and models at one instant, replaced whole; ``number`` rises on change."""

    number: int = 0
    term: int = 0
    endpoints: tuple[Endpoint, ...] = ()
    models: Mapping[str, RoutedModel] = field(default_factory=dict)
    canonical: Mapping[str, str] = field(default_factory=dict)

    def resolve(self, name: str) -> RoutedModel | None:
        """The entry that a name or an alias stands for."""
        canonical = self.canonical.get(name)
        return None if canonical is None else self.models[canonical]
