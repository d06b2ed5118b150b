"""What an action changes in the cluster; pure.

``decide`` uses it to see the outcome of its own actions, the applier to record them: so a pass ends
in exactly the state that it was decided on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias, TypeVar

from llmgw.domain.actions import (
    Action,
    Drain,
    EndRoll,
    Evict,
    ExpireNode,
    ForgetFailures,
    HaltRoll,
    LoseShards,
    MarkFailed,
    Move,
    Place,
    Release,
    ResendStart,
    Stay,
    StopShards,
    StopStray,
    Unreserve,
)
from llmgw.domain.nodes import Liveness
from llmgw.domain.replicas import Replica, Shard, ShardState, Stray
from llmgw.domain.snapshots import Cluster

OnReplica: TypeAlias = (
    LoseShards | MarkFailed | Drain | Evict | Move | Stay | StopShards | ResendStart
)
"""The actions that change one replica and keep it."""

_K = TypeVar("_K")
_V = TypeVar("_V")


def after(cluster: Cluster, action: Action, *, now: float) -> Cluster:
    """The cluster with the action done; an action on something that is gone changes nothing."""
    match action:
        case ExpireNode():
            return _expired(cluster, action)
        case Place():
            return _placed(cluster, action.replica)
        case ForgetFailures():
            return replace(cluster, failures=without(cluster.failures, action.model))
        case StopStray():
            key = (action.node_id, action.shard_id)
            told = replace(cluster.strays[key], ordered_at=now) if key in cluster.strays else None
            return replace(cluster, strays={**cluster.strays, key: told}) if told else cluster
        case Release():
            return released(cluster, action.replica_id)
        case Unreserve():
            return replace(cluster, reservations=without(cluster.reservations, action.model))
        case HaltRoll():
            return _halted(cluster, action)
        case EndRoll():
            return replace(cluster, rolls=without(cluster.rolls, action.model))
        case (
            LoseShards()
            | MarkFailed()
            | Drain()
            | Evict()
            | Move()
            | Stay()
            | StopShards()
            | ResendStart()
        ):
            return _changed(cluster, action, now=now)


def replica_after(replica: Replica, action: OnReplica, *, now: float) -> Replica:
    """One replica with an action on it done."""
    match action:
        case LoseShards():
            return _with_shards(
                replica,
                lambda s: (
                    gone(s, error=action.reason, now=now) if s.node_id == action.node_id else s
                ),
            )
        case MarkFailed():
            return replace(replica, failed_at=now, failure=action.reason)
        case Drain():
            return replace(replica, drain_since_at=now, drain_reason=action.reason)
        case Evict():
            leaving = replace(replica, drain_since_at=now, drain_reason=action.reason)
            return replace(leaving, evicted_for=action.reservation.model)
        case Move():
            return replace(replica, moving_since_at=now)
        case Stay():
            return replace(replica, moving_since_at=None)
        case StopShards():
            return _with_shards(
                replica,
                lambda s: _stop_asked(s, now=now) if s.shard_id in action.shard_ids else s,
            )
        case ResendStart():
            return _with_shards(
                replica,
                lambda s: _start_sent(s, now=now) if s.shard_id == action.spec.shard_id else s,
            )


def gone(shard: Shard, *, error: str, now: float) -> Shard:
    """A shard that ended with its node or agent: as wanted if its stop was asked, else failed."""
    if shard.state.is_final:
        return shard
    if shard.is_stop_asked:
        return replace(shard, state=ShardState.STOPPED, since_at=now, fetch=None)
    return replace(
        shard, state=ShardState.FAILED, error=error, is_gone=True, since_at=now, fetch=None
    )


def released(cluster: Cluster, replica_id: str) -> Cluster:
    """The cluster without a replica; engines of it that may still run become strays."""
    replica = cluster.replicas.get(replica_id)
    if replica is None:
        return cluster
    unconfirmed = {
        (s.node_id, s.shard_id): Stray(
            node_id=s.node_id,
            shard_id=s.shard_id,
            http_port=s.http_port,
            ordered_at=s.ordered_at,
        )
        for s in replica.shards
        if not s.state.is_final
    }
    return replace(
        cluster,
        replicas=without(cluster.replicas, replica_id),
        strays={**cluster.strays, **unconfirmed},
    )


def without(mapping: Mapping[_K, _V], key: _K) -> Mapping[_K, _V]:
    """The mapping without one key."""
    return {k: v for k, v in mapping.items() if k != key}


def _changed(cluster: Cluster, action: OnReplica, *, now: float) -> Cluster:
    replica = cluster.replicas.get(action.replica_id)
    if replica is None:
        return cluster
    changed = replica_after(replica, action, now=now)
    cluster = replace(cluster, replicas={**cluster.replicas, replica.replica_id: changed})
    if isinstance(action, Evict):
        kept = {**cluster.reservations, action.reservation.model: action.reservation}
        return replace(cluster, reservations=kept)
    if isinstance(action, MarkFailed) and action.failures is not None:
        return replace(cluster, failures={**cluster.failures, replica.model: action.failures})
    return cluster


def _placed(cluster: Cluster, replica: Replica) -> Cluster:
    """With its own claims, what was kept for its model is needed no longer."""
    cluster = replace(cluster, replicas={**cluster.replicas, replica.replica_id: replica})
    if replica.model not in cluster.reservations:
        return cluster
    return replace(cluster, reservations=without(cluster.reservations, replica.model))


def _halted(cluster: Cluster, action: HaltRoll) -> Cluster:
    roll = cluster.rolls.get(action.model)
    if roll is None:
        return cluster
    rolls = {**cluster.rolls, action.model: replace(roll, halted=action.reason)}
    return replace(cluster, rolls=rolls)


def _expired(cluster: Cluster, action: ExpireNode) -> Cluster:
    node = cluster.nodes.get(action.node_id)
    if node is None or node.last_seen_at != action.last_seen_at:
        return cluster
    nodes = {**cluster.nodes, action.node_id: replace(node, liveness=action.liveness)}
    strays = cluster.strays
    if action.liveness is Liveness.LOST:
        strays = {k: stray for k, stray in strays.items() if stray.node_id != action.node_id}
    return replace(cluster, nodes=nodes, strays=strays)


def _with_shards(replica: Replica, change: Callable[[Shard], Shard]) -> Replica:
    shards = tuple(map(change, replica.shards))
    is_same = all(a is b for a, b in zip(shards, replica.shards, strict=True))
    return replica if is_same else replace(replica, shards=shards)


def _stop_asked(shard: Shard, *, now: float) -> Shard:
    if shard.state.is_final:
        return shard
    asked_at = now if shard.stop_asked_at is None else shard.stop_asked_at
    return replace(shard, stop_asked_at=asked_at, ordered_at=now)


def _start_sent(shard: Shard, *, now: float) -> Shard:
    return replace(shard, ordered_at=now, start_orders=shard.start_orders + 1)
