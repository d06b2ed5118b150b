"""How the replicas of a draining node move off it: one at a time, and without a gap; pure.

The replica goes on serving while another one is placed elsewhere, and is drained when that one
serves. It goes after a grace period anyway, or the only node that can run a model could never be
drained. One that has never served, or that nobody wants, goes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmgw.control.reconciler import wanting
from llmgw.domain.actions import Drain, Move, Stay
from llmgw.domain.catalog import Model
from llmgw.domain.replicas import Replica, ReplicaState
from llmgw.domain.snapshots import Snapshot

_PRESENT = frozenset({ReplicaState.STARTING, ReplicaState.READY})
_STARTUP_SLACK_S = 120.0


def beginnings(snapshot: Snapshot) -> Sequence[Move | Stay]:
    """The moves to begin now, and those that are called off."""
    return [*_called_off(snapshot), *_begun(snapshot)]


def ends(snapshot: Snapshot) -> Sequence[Drain]:
    """The moves to finish now: what serves elsewhere, or never will, lets the old one go."""
    return [
        Drain(replica.replica_id, reason=reason)
        for replica in _moving(snapshot)
        if (reason := _why_it_may_go(replica, snapshot))
    ]


def _called_off(snapshot: Snapshot) -> Iterator[Stay]:
    for replica in _moving(snapshot):
        if not _draining_nodes(replica, snapshot):
            yield Stay(replica.replica_id, reason="its node does not drain any more")


def _begun(snapshot: Snapshot) -> Iterator[Move]:
    """The next replica of each draining node that has none under way; what serves goes last."""
    replicas = snapshot.cluster.replicas.values()
    busy = {n for r in replicas if r.is_moving for n in _draining_nodes(r, snapshot)}
    waiting = [r for r in replicas if r.state in _PRESENT and not r.is_moving]
    for replica in sorted(waiting, key=lambda r: (r.state is ReplicaState.READY, r.replica_id)):
        nodes = _draining_nodes(replica, snapshot)
        if nodes and not busy & nodes:
            busy |= nodes
            yield Move(replica.replica_id, reason=f"node {', '.join(sorted(nodes))} drains")


def _why_it_may_go(replica: Replica, snapshot: Snapshot) -> str:
    if replica.ready_at is None:
        return "its node drains, and it has never served"
    model = snapshot.catalog.models.get(replica.model)
    counting = wanting.counting(snapshot.cluster.replicas.values()).get(replica.model, ())
    serving = sum(r.state is ReplicaState.READY for r in counting)
    wanted = 0 if model is None else _wanted(model, len(counting), snapshot)
    if serving >= wanted:
        return "its node drains, and enough others serve"
    since_at = replica.moving_since_at
    waited_s = 0.0 if since_at is None else snapshot.now - since_at
    if waited_s >= _grace_s(replica, snapshot):
        return f"its node drains, and no replacement came to serve within {waited_s:.0f} s"
    return ""


def _wanted(model: Model, counting: int, snapshot: Snapshot) -> int:
    return wanting.wanted(model, running=counting, asked=snapshot.asked)


def _grace_s(replica: Replica, snapshot: Snapshot) -> float:
    model = snapshot.catalog.models.get(replica.model)
    profiles = () if model is None else model.profiles
    slowest_s = max((profile.startup_timeout_s for profile in profiles), default=0.0)
    return max(snapshot.bounds.move_grace_s, slowest_s + _STARTUP_SLACK_S)


def _moving(snapshot: Snapshot) -> Iterator[Replica]:
    for replica in snapshot.cluster.replicas.values():
        if replica.is_moving and replica.state in _PRESENT:
            yield replica


def _draining_nodes(replica: Replica, snapshot: Snapshot) -> set[str]:
    nodes = snapshot.cluster.nodes
    found = {shard.node_id for shard in replica.shards if shard.node_id in nodes}
    return {node_id for node_id in found if nodes[node_id].is_draining}
