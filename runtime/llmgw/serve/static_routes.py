"""The route table of a server without a control plane: endpoints from its settings; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmgw.config.settings import StaticEndpoint
from llmgw.domain import listing
from llmgw.domain.catalog import Catalog
from llmgw.domain.routes import Endpoint, ModelState, RoutedModel, RouteTable

_NUMBER = 1
"""There is one table; 0 would mean that none has come yet."""


def build(
    endpoints: Sequence[StaticEndpoint],
    *,
    catalog: Catalog,
    keys: Mapping[str, str],
    created_at: int,
) -> RouteTable:
    """One table for as long as the server runs.

    ``keys`` holds the resolved key of each endpoint id, ``created_at`` is the age of all models.
    A model of the catalog brings its aliases and its description; any other name is its own.
    """
    listed = tuple(
        _endpoint(endpoint, catalog=catalog, key=keys[endpoint.id]) for endpoint in endpoints
    )
    names = dict.fromkeys(name for endpoint in listed for name in endpoint.models)
    models = {name: _model(name, catalog=catalog, created_at=created_at) for name in names}
    aliases = {alias: name for name, model in models.items() for alias in model.aliases}
    return RouteTable(
        number=_NUMBER,
        endpoints=listed,
        models=models,
        canonical={**aliases, **{name: name for name in models}},
    )


def _endpoint(endpoint: StaticEndpoint, *, catalog: Catalog, key: str) -> Endpoint:
    canonical = tuple(dict.fromkeys(catalog.canonical.get(name, name) for name in endpoint.models))
    own_name = endpoint.models[0] if len(endpoint.models) == 1 else ""
    return Endpoint(
        endpoint_id=endpoint.id,
        url=endpoint.url.rstrip("/"),
        models=canonical,
        engine=endpoint.engine,
        weight=endpoint.weight,
        priority=endpoint.priority,
        api_key=key,
        upstream_model=own_name,
        usage_injection=endpoint.usage_injection,
    )


def _model(name: str, *, catalog: Catalog, created_at: int) -> RoutedModel:
    model = catalog.models.get(name)
    if model is None:
        return RoutedModel(name=name, state=ModelState.READY, created_at=created_at)
    return listing.routed(model, catalog=catalog, state=ModelState.READY, created_at=created_at)
