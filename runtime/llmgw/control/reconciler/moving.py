"""How replicas are replaced while they serve, and without a gap; pure.

Those on a draining node move off it, those whose profile has left the catalog or is rolled make
place for one of another profile. The replica goes on serving while another one is placed, and is
drained when that one serves; of one model only so many are replaced at a time. Off a draining node
it goes after a grace period anyway, or the only node that can run a model could never be drained.
One that has never served, or that nobody wants, goes at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from llmgw.control.reconciler import rolling, wanting
from llmgw.domain.actions import Drain, Move, Stay
from llmgw.domain.replicas import Replica, ReplicaState
from llmgw.domain.snapshots import Snapshot

_PRESENT = frozenset({ReplicaState.STARTING, ReplicaState.READY})


def beginnings(snapshot: Snapshot) -> Sequence[Move | Stay]:
    """The moves to begin now, and those that are called off."""
    return [*_called_off(snapshot), *_begun(snapshot)]


def ends(snapshot: Snapshot) -> Iterator[Drain]:
    """The moves to finish now: what serves elsewhere, or never will, lets the old one go."""
    moving = sorted(_moving(snapshot), key=lambda r: (r.moving_since_at, r.replica_id))
    if not moving:
        return
    serving, wanted = _serving(snapshot), _wanted(snapshot)
    for replica in moving:
        is_serving = replica.state is ReplicaState.READY
        left = serving[replica.model] - is_serving
        reason = _why_it_may_go(replica, snapshot, is_enough=left >= wanted(replica.model))
        if reason:
            serving[replica.model] = left
            yield Drain(replica.replica_id, reason=reason)


def why(replica: Replica, snapshot: Snapshot) -> str:
    """Why it is to be replaced; empty when it may stay."""
    if nodes := _draining_nodes(replica, snapshot):
        return f"node {', '.join(sorted(nodes))} drains"
    if _has_lost_its_profile(replica, snapshot):
        return f"profile {replica.profile} is no longer in the catalog"
    return "its profile has changed" if rolling.is_rolling(replica, snapshot) else ""


def grace_s(replica: Replica, snapshot: Snapshot) -> float | None:
    """How long it serves at most while no replacement does; as long as it takes if it may stay."""
    if not _draining_nodes(replica, snapshot) and not _has_lost_its_profile(replica, snapshot):
        return None
    return rolling.grace(snapshot.catalog.models.get(replica.model), snapshot)


def _called_off(snapshot: Snapshot) -> Iterator[Stay]:
    for replica in _moving(snapshot):
        if not why(replica, snapshot):
            yield Stay(replica.replica_id, reason="there is no reason any more to replace it")


def _begun(snapshot: Snapshot) -> Iterator[Move]:
    """As many of each model as may be replaced at a time; what serves goes last."""
    under_way = Counter(replica.model for replica in _moving(snapshot))
    reasons = {
        replica.replica_id: reason
        for replica in snapshot.cluster.replicas.values()
        if not replica.is_moving and (reason := why(replica, snapshot))
    }
    waiting = [snapshot.cluster.replicas[replica_id] for replica_id in reasons]
    present = [replica for replica in waiting if replica.state in _PRESENT]
    for replica in sorted(present, key=lambda r: (r.state is ReplicaState.READY, r.replica_id)):
        if under_way[replica.model] < _most_at_once(replica, snapshot):
            under_way[replica.model] += 1
            yield Move(replica.replica_id, reason=reasons[replica.replica_id])


def _has_lost_its_profile(replica: Replica, snapshot: Snapshot) -> bool:
    model = snapshot.catalog.models.get(replica.model)
    return model is not None and model.profile(replica.profile) is None


def _most_at_once(replica: Replica, snapshot: Snapshot) -> int:
    model = snapshot.catalog.models.get(replica.model)
    is_rolled = not _draining_nodes(replica, snapshot) and rolling.is_rolling(replica, snapshot)
    if model is not None and is_rolled:
        return rolling.most_at_once(model, snapshot)
    return snapshot.bounds.max_unavailable


def _why_it_may_go(replica: Replica, snapshot: Snapshot, *, is_enough: bool) -> str:
    cause = why(replica, snapshot)
    if replica.ready_at is None:
        return f"{cause}, and it has never served"
    if is_enough:
        return f"{cause}, and enough others serve"
    if rolling.is_rolling(replica, snapshot) and rolling.may_interrupt(replica, snapshot):
        return f"{cause}, and there is no room for another beside it"
    since_at = replica.moving_since_at
    waited_s = 0.0 if since_at is None else snapshot.now - since_at
    most_s = grace_s(replica, snapshot)
    if most_s is not None and waited_s >= most_s:
        return f"{cause}, and no replacement came to serve within {waited_s:.0f} s"
    return ""


def _serving(snapshot: Snapshot) -> Counter[str]:
    """How many of each model serve, those that are to be replaced too."""
    replicas = snapshot.cluster.replicas.values()
    return Counter(r.model for r in replicas if r.state is ReplicaState.READY)


def _wanted(snapshot: Snapshot) -> Callable[[str], int]:
    """How many of a model are wanted; none of one that is in the catalog no longer."""
    counting = wanting.counting(snapshot.cluster.replicas.values())

    def of(name: str) -> int:
        model = snapshot.catalog.models.get(name)
        running = len(counting.get(name, ()))
        if model is None:
            return 0
        return wanting.wanted(model, running=running, asked=snapshot.asked)

    return of


def _moving(snapshot: Snapshot) -> Iterator[Replica]:
    for replica in snapshot.cluster.replicas.values():
        if replica.is_moving and replica.state in _PRESENT:
            yield replica


def _draining_nodes(replica: Replica, snapshot: Snapshot) -> set[str]:
    nodes = snapshot.cluster.nodes
    return {
        shard.node_id
        for shard in replica.shards
        if (node := nodes.get(shard.node_id)) is not None and node.is_draining
    }
