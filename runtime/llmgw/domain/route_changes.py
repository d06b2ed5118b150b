"""What has changed between two route tables, and the table that a change makes of another; pure.

A control plane tells gateways on other hosts of changes and not of whole tables.  The order of
endpoints and models is part of a table and comes across as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from llmgw.domain.routes import Endpoint, RoutedModel, RouteTable
from llmgw.errors import Conflict

_ItemT = TypeVar("_ItemT")


@dataclass(frozen=True, slots=True)
class ListChange(Generic[_ItemT]):
    """Of one list: the names that are gone, and items that are new or changed, with their place."""

    gone: tuple[str, ...] = ()
    placed: tuple[tuple[int, _ItemT], ...] = ()


@dataclass(frozen=True, slots=True)
class RouteChange:
    """All that makes the table ``number`` of the table ``base_number``."""

    base_number: int
    number: int
    endpoints: ListChange[Endpoint]
    models: ListChange[RoutedModel]


def between(before: RouteTable, after: RouteTable) -> RouteChange | None:
    """The change; nothing where only a whole table can tell it: a new term, or another order."""
    if before.term != after.term:
        return None
    endpoints = _difference(_by_id(before.endpoints), _by_id(after.endpoints))
    models = _difference(before.models, after.models)
    if endpoints is None or models is None:
        return None
    return RouteChange(
        base_number=before.number, number=after.number, endpoints=endpoints, models=models
    )


def applied(table: RouteTable, change: RouteChange) -> RouteTable:
    """The table after a change; ``Conflict`` where it was made for another table."""
    if table.number != change.base_number:
        raise Conflict(
            f"a change of table {change.base_number} came to table {table.number}: one is missing"
        )
    models = _changed(table.models, change.models, names=[m.name for _, m in change.models.placed])
    endpoints = _changed(
        _by_id(table.endpoints),
        change.endpoints,
        names=[e.endpoint_id for _, e in change.endpoints.placed],
    )
    return replace(
        table,
        number=change.number,
        endpoints=tuple(endpoints.values()),
        models=models,
        canonical=canonical(models),
    )


def overlaid(table: RouteTable, models: Sequence[RoutedModel]) -> RouteTable:
    """The table with newer facts of some models; those that it does not list are left out."""
    newer = {model.name: model for model in models if model.name in table.models}
    if all(table.models[name] == model for name, model in newer.items()):
        return table
    return replace(table, models={**table.models, **newer})


def canonical(models: Mapping[str, RoutedModel]) -> dict[str, str]:
    """Which model each name and alias stands for."""
    return {name: model.name for model in models.values() for name in (model.name, *model.aliases)}


def _by_id(endpoints: Sequence[Endpoint]) -> dict[str, Endpoint]:
    return {endpoint.endpoint_id: endpoint for endpoint in endpoints}


def _difference(
    before: Mapping[str, _ItemT], after: Mapping[str, _ItemT]
) -> ListChange[_ItemT] | None:
    """Nothing where items that are the same have changed their order."""
    same = {name for name, item in after.items() if name in before and before[name] == item}
    if [name for name in before if name in same] != [name for name in after if name in same]:
        return None
    return ListChange(
        gone=tuple(name for name in before if name not in after),
        placed=tuple(
            (place, item) for place, (name, item) in enumerate(after.items()) if name not in same
        ),
    )


def _changed(
    before: Mapping[str, _ItemT], change: ListChange[_ItemT], *, names: Sequence[str]
) -> dict[str, _ItemT]:
    """The list after its change; ``names`` are those of the placed items."""
    left = {*change.gone, *names}
    items = [(name, item) for name, item in before.items() if name not in left]
    for name, (place, item) in zip(names, change.placed, strict=True):
        items.insert(place, (name, item))
    return dict(items)
