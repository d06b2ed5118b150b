"""What an agent's report of a shard changes in the cluster; pure."""

from __future__ import annotations

from dataclasses import replace

from llmgw.control.reconciler import effects, expecting
from llmgw.domain import replicas as rules
from llmgw.domain.replicas import (
    PORT_IN_USE,
    Replica,
    ReplicaState,
    Shard,
    ShardReport,
    ShardState,
    Stray,
)
from llmgw.domain.snapshots import Cluster

MOST_STRAYS = 256
"""Of one node; one that goes on inventing engines is not listened to any more."""


def reported(cluster: Cluster, report: ShardReport, *, now: float, avoid_s: float) -> Cluster:
    """The cluster after a report; a shard that nobody knows is an engine that nobody wants."""
    replica = cluster.replicas.get(report.replica_id)
    shard = None if replica is None else _find(replica, report)
    if replica is None or shard is None:
        return _of_stray(cluster, report)
    changed = _shard_after(shard, report, now=now)
    shards = tuple(changed if s is shard else s for s in replica.shards)
    before, replica = replica, stamped(replace(replica, shards=shards), now=now)
    cluster = replace(cluster, replicas={**cluster.replicas, replica.replica_id: replica})
    cluster = expecting.learnt(cluster, before=before, after=replica)
    if report.state is ShardState.FAILED and report.error.startswith(PORT_IN_USE):
        return _block_port(cluster, shard, now=now, avoid_s=avoid_s)
    return cluster


def refused(cluster: Cluster, *, replica_id: str, shard_id: str, error: str, now: float) -> Cluster:
    """The cluster after a start could not be sent: for the replica it is as if it had failed."""
    replica = cluster.replicas.get(replica_id)
    if replica is None:
        return cluster
    shards = tuple(
        replace(s, state=ShardState.FAILED, error=error, since_at=now)
        if s.shard_id == shard_id and not s.state.is_final
        else s
        for s in replica.shards
    )
    replica = replace(replica, shards=shards)
    return replace(cluster, replicas={**cluster.replicas, replica_id: replica})


def stamped(replica: Replica, *, now: float) -> Replica:
    """The replica with the times that follow from its shards."""
    if len(replica.shards) >= replica.want_shards and replica.adopted_at is not None:
        replica = replace(replica, adopted_at=None)
    state = replica.state
    if state is ReplicaState.READY:
        ready_at = now if replica.ready_at is None else replica.ready_at
        return replace(replica, ready_at=ready_at, unready_at=None)
    if state is ReplicaState.STARTING and replica.ready_at is not None:
        return replace(replica, unready_at=replica.unready_at or now)
    return replica


def _find(replica: Replica, report: ShardReport) -> Shard | None:
    key = (report.node_id, report.shard_id)
    return next((s for s in replica.shards if (s.node_id, s.shard_id) == key), None)


def _shard_after(shard: Shard, report: ShardReport, *, now: float) -> Shard:
    state = rules.observed(held=shard.state, reported=report.state)
    if shard.state.is_final:
        return shard
    if state is shard.state:
        is_drained = shard.is_drained or report.is_drained
        held = replace(shard, is_reported=True, is_drained=is_drained)
        return _fetching(held, report, now=now)
    is_launched = shard.state is ShardState.PENDING and state.is_live
    return replace(
        shard,
        state=state,
        since_at=now,
        launched_at=now if is_launched else shard.launched_at,
        is_reported=True,
        is_drained=report.is_drained,
        fetch=report.fetch,
        error=report.error,
        exit_code=report.exit_code,
        last_output=report.last_output,
    )


def _fetching(shard: Shard, report: ShardReport, *, now: float) -> Shard:
    """A download that gets on is a side note: it is no step, and no timer starts anew for it."""
    if report.fetch is None:
        return shard
    before = -1 if shard.fetch is None else shard.fetch.done_bytes
    has_risen = report.fetch.done_bytes > before
    return replace(
        shard,
        fetch=report.fetch,
        fetch_rose_at=now if has_risen else shard.fetch_rose_at,
        fetch_bytes=report.fetch.total_bytes or shard.fetch_bytes,
    )


def _of_stray(cluster: Cluster, report: ShardReport) -> Cluster:
    key = (report.node_id, report.shard_id)
    if report.state.is_final:
        return replace(cluster, strays=effects.without(cluster.strays, key))
    known = sum(node_id == report.node_id for node_id, _ in cluster.strays)
    if key in cluster.strays or known >= MOST_STRAYS:
        return cluster
    stray = Stray(node_id=report.node_id, shard_id=report.shard_id, http_port=0)
    return replace(cluster, strays={**cluster.strays, key: stray})


def _block_port(cluster: Cluster, shard: Shard, *, now: float, avoid_s: float) -> Cluster:
    held = {key: until_at for key, until_at in cluster.blocked_ports.items() if until_at > now}
    held[shard.node_id, shard.http_port] = now + avoid_s
    return replace(cluster, blocked_ports=held)
