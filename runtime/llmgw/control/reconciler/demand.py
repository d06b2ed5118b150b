"""Which models should run because of requests: those waited for, and those in use; pure.

The loop asks once a pass.  That a model is loaded keeps it loaded (``wanting``); this is what loads
it, and loads it again where it ended under its users.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from llmgw.domain.routes import EndpointState, RouteTable
from llmgw.domain.snapshots import Cluster
from llmgw.domain.traffic import Traffic

IN_USE_S = 60.0
"""A model that was used within this time is in use: it is replaced where its replica ends."""

REMEMBERED_S = 3600.0
"""How long it is remembered when a model was asked for."""

REFUSED_S = 10.0
"""A model that found no place is told so for this long after the last request that waited for it.

Else each request would begin its search anew, and change every gateway's table twice.
"""


def used(
    before: Mapping[str, float], *, cluster: Cluster, traffic: Traffic, now: float
) -> Mapping[str, float]:
    """When each model was last used, after another look; absent where that is not known."""
    after = dict(before)
    for replica_id, replica in cluster.replicas.items():
        seen = traffic.endpoints.get(replica_id)
        if seen is None:
            continue
        at = now if seen.inflight else seen.last_used_at
        if at is not None:
            after[replica.model] = max(at, after.get(replica.model, at))
    return after


def waited(before: Mapping[str, float], *, traffic: Traffic, now: float) -> Mapping[str, float]:
    """When requests last waited for each model, after another look."""
    recent = {model: at for model, at in before.items() if now - at < REFUSED_S}
    return {**recent, **dict.fromkeys(traffic.asked, now)}


def asked(
    used_at: Mapping[str, float],
    *,
    traffic: Traffic,
    waited_at: Mapping[str, float],
    refused: Collection[str],
    now: float,
) -> frozenset[str]:
    """The models that requests need now; ``refused`` are those that found no place."""
    told = {model for model in waited_at if model in refused}
    in_use = {model for model, at in used_at.items() if now - at < IN_USE_S}
    return traffic.asked | told | in_use


def remembered(
    before: Mapping[str, float], *, asked: Collection[str], now: float
) -> Mapping[str, float]:
    """When each model was last asked for, after another look."""
    recent = {model: at for model, at in before.items() if now - at < REMEMBERED_S}
    return {**recent, **dict.fromkeys(asked, now)}


def awaiting_room(
    cluster: Cluster, *, asked_at: Mapping[str, float], patience_s: float, now: float
) -> frozenset[str]:
    """Models for which room is being made, and that somebody has asked for lately.

    Their requests give up and come again before others have left: the wish outlives them.
    """
    return frozenset(
        model
        for model in cluster.reservations
        if now - asked_at.get(model, now - patience_s) < patience_s
    )


def watched(
    before: Mapping[str, float], *, cluster: Cluster, traffic: Traffic, now: float
) -> Mapping[str, float]:
    """Since when the gateways have told of each replica without a break, after another look."""
    return {
        replica_id: before.get(replica_id, now)
        for replica_id in cluster.replicas
        if replica_id in traffic.endpoints
    }


def draining_inflight(table: RouteTable, traffic: Traffic) -> Mapping[str, int]:
    """Requests under way at each endpoint that drains, where every gateway knows that it does."""
    if not traffic.has_latest_table:
        return {}
    return {
        one.endpoint_id: traffic.endpoints[one.endpoint_id].inflight
        for one in table.endpoints
        if one.state is EndpointState.DRAINING and one.endpoint_id in traffic.endpoints
    }
