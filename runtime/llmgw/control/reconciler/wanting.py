"""How many replicas of each model are wanted, how many count, since when some are missing; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from llmgw.domain.catalog import Catalog, Model
from llmgw.domain.replicas import Replica, ReplicaState

_COUNTING = frozenset({ReplicaState.STARTING, ReplicaState.READY})


def wanted(model: Model, *, running: int, asked: Collection[str]) -> int:
    """How many should run: ``min`` of them; of an on-demand model one that runs or is ``asked``."""
    scaling = model.scaling
    if scaling is None or scaling.is_off or not model.profiles:
        return 0
    if scaling.is_on_demand:
        return 1 if running or model.name in asked else 0
    return scaling.min


def counting(replicas: Iterable[Replica]) -> Mapping[str, Sequence[Replica]]:
    """The replicas that count towards what is wanted, by model: starting and ready ones.

    One that moves does not: its replacement is to be placed while it still serves.
    """
    by_model: dict[str, list[Replica]] = {}
    for replica in replicas:
        if replica.state in _COUNTING and not replica.is_moving:
            by_model.setdefault(replica.model, []).append(replica)
    return by_model


def lacking(
    catalog: Catalog, have: Mapping[str, Sequence[Replica]], *, asked: Collection[str]
) -> Sequence[Model]:
    """The models of which fewer count than are wanted."""
    return [
        model
        for name, model in catalog.models.items()
        if wanted(model, running=len(have.get(name, ())), asked=asked) > len(have.get(name, ()))
    ]


def noted(
    since: Mapping[str, float],
    *,
    catalog: Catalog,
    replicas: Iterable[Replica],
    asked: Collection[str],
    now: float,
) -> Mapping[str, float]:
    """Since when each model has lacked replicas, after another look."""
    models = lacking(catalog, counting(replicas), asked=asked)
    return {model.name: since.get(model.name, now) for model in models}
