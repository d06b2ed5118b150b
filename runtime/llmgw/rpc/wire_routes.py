"""Translates route tables and their changes, and what gateways report of them.

States are carried by their words. A message that makes no sense raises ``Invalid``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from llmgw.domain import route_changes
from llmgw.domain.pricing import Price
from llmgw.domain.route_changes import ListChange, RouteChange
from llmgw.domain.routes import Endpoint, EndpointState, ModelState, RoutedModel, RouteTable
from llmgw.errors import Invalid
from llmgw.rpc import texts
from llmgw.rpc.v1 import gateway_pb2 as pb

_StateT = TypeVar("_StateT", EndpointState, ModelState)


def pack_welcome(*, term: int) -> pb.RouteUpdate:
    """The first word to a gateway that was let in."""
    return pb.RouteUpdate(term=term, welcome=pb.Welcome())


def pack_snapshot(table: RouteTable, *, term: int) -> pb.RouteUpdate:
    """The whole table."""
    snapshot = pb.RouteSnapshot(
        endpoints=map(_pack_endpoint, table.endpoints),
        models=map(pack_model, table.models.values()),
    )
    return pb.RouteUpdate(term=term, number=table.number, snapshot=snapshot)


def unpack_snapshot(update: pb.RouteUpdate) -> RouteTable:
    """The table, of the leader's term."""
    models = {m.name: unpack_model(m) for m in update.snapshot.models}
    return RouteTable(
        number=update.number,
        term=update.term,
        endpoints=tuple(map(_unpack_endpoint, update.snapshot.endpoints)),
        models=models,
        canonical=route_changes.canonical(models),
    )


def pack_change(change: RouteChange, *, term: int) -> pb.RouteUpdate:
    """What makes the next table of the one that was sent last."""
    difference = pb.RouteDifference(
        base=change.base_number,
        endpoints_gone=change.endpoints.gone,
        endpoints=(
            pb.PlacedEndpoint(place=place, endpoint=_pack_endpoint(endpoint))
            for place, endpoint in change.endpoints.placed
        ),
        models_gone=change.models.gone,
        models=(
            pb.PlacedModel(place=place, model=pack_model(model))
            for place, model in change.models.placed
        ),
    )
    return pb.RouteUpdate(term=term, number=change.number, difference=difference)


def unpack_change(update: pb.RouteUpdate) -> RouteChange:
    """What makes the next table of the one that came last."""
    told = update.difference
    return RouteChange(
        base_number=told.base,
        number=update.number,
        endpoints=ListChange(
            gone=tuple(told.endpoints_gone),
            placed=tuple((one.place, _unpack_endpoint(one.endpoint)) for one in told.endpoints),
        ),
        models=ListChange(
            gone=tuple(told.models_gone),
            placed=tuple((one.place, unpack_model(one.model)) for one in told.models),
        ),
    )


def pack_model(model: RoutedModel) -> pb.ModelFacts:
    """One catalog entry as gateways need it."""
    return pb.ModelFacts(
        name=model.name,
        aliases=model.aliases,
        state=str(model.state),
        created_at=model.created_at,
        owned_by=model.owned_by,
        context_length=model.context_length,
        capabilities=model.capabilities,
        description=None if model.description is None else texts.repaired(model.description),
        fallbacks=model.fallbacks,
        routing_profile=model.routing_profile,
        retry_after_s=model.retry_after_s,
        ready_expected_at=model.ready_expected_at,
        is_on_demand=model.is_on_demand,
        failure=texts.repaired(model.failure),
        price=None if model.price is None else _packed_price(model.price),
    )


def unpack_model(facts: pb.ModelFacts) -> RoutedModel:
    """One catalog entry as gateways need it."""
    return RoutedModel(
        name=facts.name,
        aliases=tuple(facts.aliases),
        state=_state(ModelState, facts.state),
        created_at=facts.created_at,
        owned_by=facts.owned_by,
        context_length=facts.context_length if facts.HasField("context_length") else None,
        capabilities=tuple(facts.capabilities),
        description=facts.description if facts.HasField("description") else None,
        fallbacks=tuple(facts.fallbacks),
        routing_profile=facts.routing_profile,
        retry_after_s=facts.retry_after_s if facts.HasField("retry_after_s") else None,
        ready_expected_at=(
            facts.ready_expected_at if facts.HasField("ready_expected_at") else None
        ),
        is_on_demand=facts.is_on_demand,
        failure=facts.failure,
        price=_price(facts.price) if facts.HasField("price") else None,
    )


def _packed_price(price: Price) -> pb.Price:
    return pb.Price(prompt_per_1k=price.prompt_per_1k, completion_per_1k=price.completion_per_1k)


def _price(packed: pb.Price) -> Price:
    return Price(max(packed.prompt_per_1k, 0), max(packed.completion_per_1k, 0))


def _pack_endpoint(endpoint: Endpoint) -> pb.RoutedEndpoint:
    return pb.RoutedEndpoint(
        endpoint_id=endpoint.endpoint_id,
        url=endpoint.url,
        models=endpoint.models,
        engine=endpoint.engine,
        node_id=endpoint.node_id,
        pool=endpoint.pool,
        weight=endpoint.weight,
        priority=endpoint.priority,
        state=str(endpoint.state),
        api_key=endpoint.api_key,
        upstream_model=endpoint.upstream_model,
        context_length=endpoint.context_length,
        capabilities=endpoint.capabilities,
        usage_injection=endpoint.usage_injection,
    )


def _unpack_endpoint(endpoint: pb.RoutedEndpoint) -> Endpoint:
    return Endpoint(
        endpoint_id=endpoint.endpoint_id,
        url=endpoint.url,
        models=tuple(endpoint.models),
        engine=endpoint.engine,
        node_id=endpoint.node_id,
        pool=endpoint.pool,
        weight=endpoint.weight,
        priority=endpoint.priority,
        state=_state(EndpointState, endpoint.state),
        api_key=endpoint.api_key,
        upstream_model=endpoint.upstream_model,
        context_length=endpoint.context_length if endpoint.HasField("context_length") else None,
        capabilities=tuple(endpoint.capabilities),
        usage_injection=endpoint.usage_injection,
    )


def _state(kind: type[_StateT], word: str) -> _StateT:
    try:
        return kind(word)
    except ValueError as error:
        known: Iterable[str] = map(str, kind)
        raise Invalid(f"{word!r} is none of the states {', '.join(known)}") from error
