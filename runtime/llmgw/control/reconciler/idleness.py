"""What nobody uses any more: idle models, and loads that nobody waits for; pure.

Only models loaded on demand are stopped; what must run always runs however little it is used. A
replica of whose use nothing is known is left alone, and counts as idle only from the moment since
when the gateways could have told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llmgw.control.reconciler import expecting
from llmgw.domain.actions import Drain
from llmgw.domain.catalog import Scaling
from llmgw.domain.replicas import Replica, ReplicaState
from llmgw.domain.snapshots import Snapshot

_LITTLE = 0.1
"""A load of which more is done goes on: it may be needed soon after all."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Since when a replica has been idle; ``was_used`` where its last use is known."""

    since_at: float
    was_used: bool


def ends(snapshot: Snapshot) -> Iterator[Drain]:
    """The drains of what nobody uses, and of what nobody waits for."""
    for replica in snapshot.cluster.replicas.values():
        scaling = on_demand(replica, snapshot)
        if scaling is None or replica.is_moving or replica.model in snapshot.asked:
            continue
        reason = _why_idle(replica, snapshot, scaling) or _why_unwanted(replica, snapshot)
        if reason:
            yield Drain(replica.replica_id, reason=reason)


def on_demand(replica: Replica, snapshot: Snapshot) -> Scaling | None:
    """The scaling of its model where that is loaded when somebody asks, else nothing."""
    model = snapshot.catalog.models.get(replica.model)
    scaling = None if model is None else model.scaling
    return scaling if scaling is not None and scaling.is_on_demand else None


def rest(replica: Replica, snapshot: Snapshot) -> Rest | None:
    """Nothing while it serves a request, has not begun to serve, or nobody can say."""
    seen = snapshot.traffic.endpoints.get(replica.replica_id)
    if seen is None or seen.inflight or replica.ready_at is None:
        return None
    if seen.last_used_at is not None:
        return Rest(max(seen.last_used_at, replica.ready_at), was_used=True)
    watched_at = snapshot.watched_since.get(replica.replica_id)
    if watched_at is None:
        return None
    return Rest(max(watched_at, replica.ready_at), was_used=False)


def _why_idle(replica: Replica, snapshot: Snapshot, scaling: Scaling) -> str:
    if replica.state is not ReplicaState.READY or (idle := rest(replica, snapshot)) is None:
        return ""
    idle_s = snapshot.now - idle.since_at
    if idle_s < scaling.idle_timeout_s:
        return ""
    return f"nobody has used it for {idle_s:.0f} s (idle_timeout {scaling.idle_timeout_s:g} s)"


def _why_unwanted(replica: Replica, snapshot: Snapshot) -> str:
    """A load whose last request has given up long ago, of which hardly anything is done."""
    if replica.state is not ReplicaState.STARTING or replica.ready_at is not None:
        return ""
    asked_at = snapshot.asked_at.get(replica.model, replica.starting_since_at)
    alone_s = snapshot.now - max(asked_at, replica.starting_since_at)
    share = expecting.share_done(replica, snapshot)
    if alone_s < snapshot.bounds.unwanted_after_s or share is None or share >= _LITTLE:
        return ""
    return f"nobody has waited for it for {alone_s:.0f} s, and {share:.0%} of its load is done"
