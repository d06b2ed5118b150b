"""When a replica that starts will probably serve, and how much of its start is done; pure.

A start is a download, if the weights are not there, and then a load, which takes about as long as
the last one of the profile did. Absent where nobody knows, and where it is overdue: then nothing
is to be promised.
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
    if any(shard.fetch is not None for shard in replica.shards):
        fetched_at = _fetched_at(replica, now=snapshot.now)
        at = None if fetched_at is None else fetched_at + (took_s or 0.0)
    else:
        at = None if took_s is None else _loading_since_at(replica) + took_s
    return at if at is not None and at > snapshot.now else None


def share_done(replica: Replica, snapshot: Snapshot) -> float | None:
    """How much of a start is done, from 0 to 1: of its downloads, else of the time that it takes.

    Nothing is done while no node has spoken of it.
    """
    if not any(shard.is_reported for shard in replica.shards):
        return 0.0
    fetches = [shard.fetch for shard in replica.shards if shard.fetch is not None]
    if fetches:
        shares = [f.done_bytes / f.total_bytes for f in fetches if f.total_bytes]
        return min(shares) if len(shares) == len(fetches) else None
    took_s = snapshot.cluster.load_times.get((replica.model, replica.profile))
    if not took_s:
        return None
    return min(1.0, (snapshot.now - _loading_since_at(replica)) / took_s)


def soonest(replicas: Iterable[Replica], snapshot: Snapshot) -> float | None:
    """When the first of several will."""
    known = [at for replica in replicas if (at := ready_at(replica, snapshot)) is not None]
    return min(known, default=None)


def learnt(cluster: Cluster, *, before: Replica, after: Replica) -> Cluster:
    """The cluster with what a load has taken that has just come to its end, without its download.

    One that was adopted began before we saw it, so nobody knows how long it took.
    """
    is_first = before.ready_at is None and after.ready_at is not None
    was_ours = all(shard.start_orders for shard in after.shards)
    if not is_first or not was_ours or after.ready_at is None:
        return cluster
    key, took_s = (after.model, after.profile), after.ready_at - _loading_since_at(before)
    return replace(cluster, load_times={**cluster.load_times, key: took_s})


def _loading_since_at(replica: Replica) -> float:
    """From when its load counts: when the last download had ended, else from its beginning."""
    launched = [s.launched_at for s in replica.shards if s.fetch_bytes and s.launched_at]
    return max((replica.created_at, *launched))


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
