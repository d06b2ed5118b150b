"""When a replica that starts will probably serve, from its last start or from its download.

Pure.  Absent where nobody knows, and where it is overdue: then nothing is to be promised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from llmgw.domain.replicas import Replica, ReplicaState
from llmgw.domain.snapshots import Cluster, Snapshot

_LEAST_FETCHED = 0.05
_STEP_S = 10.0
"""Estimates of downloads move in steps: each new one is told to all gateways."""


def ready_at(replica: Replica, snapshot: Snapshot) -> float | None:
    """When one replica will serve, on the clock of the snapshot."""
    if replica.state is not ReplicaState.STARTING:
        return None
    took_s = snapshot.cluster.load_times.get((replica.model, replica.profile))
    at = _fetched_at(replica, now=snapshot.now) if took_s is None else replica.created_at + took_s
    return at if at is not None and at > snapshot.now else None


def soonest(replicas: Iterable[Replica], snapshot: Snapshot) -> float | None:
    """When the first of several will."""
    known = [at for replica in replicas if (at := ready_at(replica, snapshot)) is not None]
    return min(known, default=None)


def learnt(cluster: Cluster, *, before: Replica, after: Replica) -> Cluster:
    """The cluster with what a start has taken that has just come to its end.

    One that was adopted began before we saw it, so nobody knows how long it took.
    """
    is_first = before.ready_at is None and after.ready_at is not None
    was_ours = all(shard.start_orders for shard in after.shards)
    if not is_first or not was_ours or after.ready_at is None:
        return cluster
    key, took_s = (after.model, after.profile), after.ready_at - after.created_at
    return replace(cluster, load_times={**cluster.load_times, key: took_s})


def _fetched_at(replica: Replica, *, now: float) -> float | None:
    """When the slowest of its downloads ends, at the pace that it has had so far."""
    ends = []
    for shard in replica.shards:
        fetch = shard.fetch
        if fetch is None or not fetch.total_bytes:
            continue
        share = fetch.done_bytes / fetch.total_bytes
        if share < _LEAST_FETCHED:
            return None
        ends.append(replica.created_at + (now - replica.created_at) / share)
    return math.ceil(max(ends) / _STEP_S) * _STEP_S if ends else None
