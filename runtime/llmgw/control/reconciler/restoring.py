"""What a leader may do whose lease has run out: start anew what failed, on its own node; pure.

It does not know whether another one leads by now. What failed here it may give another start in the
same place: no wish is placed twice by that, for whoever leads next finds on that node what it held
before. Nothing is placed elsewhere, moved, drained or stopped. A replica over several nodes waits.
"""

from __future__ import annotations

from dataclasses import replace

from llmgw.control.placement import planning
from llmgw.control.reconciler import advancing, effects, gates, starting, wanting
from llmgw.domain.actions import Action, Decision, MarkFailed, Place, Release
from llmgw.domain.replicas import Replica, ReplicaState
from llmgw.domain.snapshots import Snapshot

_LEADER = "leader"
"""The gate that is shut for want of a lease."""


def decide(snapshot: Snapshot) -> Decision:
    """Failures are noted, so that their waits count; then one replica is started anew."""
    actions: list[Action] = []
    for replica_id in tuple(snapshot.cluster.replicas):
        failed = _noted(snapshot.cluster.replicas[replica_id], snapshot)
        if failed is not None:
            actions.append(failed)
            snapshot = _after(snapshot, failed)
    for replica in tuple(snapshot.cluster.replicas.values()):
        over = Release(replica.replica_id, reason="it is started anew where it was")
        place = _again(replica, _after(snapshot, over)) if _may_return(replica, snapshot) else None
        if place is not None:
            return Decision(actions=(*actions, over, place))
    return Decision(actions=tuple(actions))


def _noted(replica: Replica, snapshot: Snapshot) -> MarkFailed | None:
    if replica.failed_at is not None or not _may_return(replica, snapshot):
        return None
    step = advancing.next_step(replica, snapshot)
    return step if isinstance(step, MarkFailed) else None


def _may_return(replica: Replica, snapshot: Snapshot) -> bool:
    """Whether it failed by itself, whole, on one node that can be told so."""
    if replica.state is not ReplicaState.FAILED or not replica.is_over or replica.want_shards != 1:
        return False
    (shard,) = replica.shards
    node = snapshot.cluster.nodes.get(shard.node_id)
    return not shard.is_gone and node is not None and node.is_connected


def _again(replica: Replica, snapshot: Snapshot) -> Place | None:
    """The same once more on the same node, where it is still wanted and fits there."""
    model = snapshot.catalog.models.get(replica.model)
    if model is None:
        return None
    running = len(wanting.counting(snapshot.cluster.replicas.values()).get(model.name, ()))
    conditions = gates.of(model, snapshot, running=running)
    if not all(gate.is_open for gate in conditions if gate.name != _LEADER):
        return None
    (shard,) = replica.shards
    everywhere = planning.space(snapshot.cluster, now=snapshot.now, bounds=snapshot.bounds)
    there = tuple(site for site in everywhere.sites if site.node_id == shard.node_id)
    failures = snapshot.cluster.failures.get(model.name)
    outcome = planning.plan(replace(everywhere, sites=there), model, failures=failures)
    if outcome.placement is None:
        return None
    return starting.place(
        outcome.placement,
        model=model,
        replica_id=starting.fresh_id(snapshot, model),
        now=snapshot.now,
        reason=f"{replica.replica_id} failed here, and nobody is known to lead",
    )


def _after(snapshot: Snapshot, action: Action) -> Snapshot:
    return replace(snapshot, cluster=effects.after(snapshot.cluster, action, now=snapshot.now))
