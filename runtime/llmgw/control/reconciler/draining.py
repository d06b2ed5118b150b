"""Which replicas are too many, and go; pure.

They are drained, never cut: what is published last is stopped last. Nothing is moved to even out.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.control.reconciler import wanting
from llmgw.domain.actions import Drain
from llmgw.domain.catalog import Model
from llmgw.domain.replicas import Replica, ReplicaState
from llmgw.domain.snapshots import Snapshot


def surplus(snapshot: Snapshot) -> Sequence[Drain]:
    """One drain for each replica above what is wanted of its model."""
    drains: list[Drain] = []
    for name, replicas in wanting.counting(snapshot.cluster.replicas.values()).items():
        model = snapshot.catalog.models.get(name)
        if model is None:
            continue
        wanted = wanting.wanted(model, running=len(replicas), asked=snapshot.asked)
        if len(replicas) <= wanted:
            continue
        reason = f"{len(replicas)} run and {wanted} are wanted"
        drains += [
            Drain(replica.replica_id, reason=reason)
            for replica in _first_to_go(replicas, model, snapshot)[: len(replicas) - wanted]
        ]
    return drains


def _first_to_go(
    replicas: Sequence[Replica], model: Model, snapshot: Snapshot
) -> Sequence[Replica]:
    """What serves least is missed least; among equals the youngest, whose caches are coldest."""
    return sorted(
        replicas,
        key=lambda replica: (
            replica.state is ReplicaState.READY,
            not is_stale(replica, model),
            not _is_on_flagged_node(replica, snapshot),
            -replica.created_at,
            replica.replica_id,
        ),
    )


def is_stale(replica: Replica, model: Model) -> bool:
    """Whether its profile was edited after it was placed; unknown is not stale."""
    profile = model.profile(replica.profile)
    if profile is None or not replica.profile_fp:
        return False
    return replica.profile_fp != profile.fingerprint(model=model)


def _is_on_flagged_node(replica: Replica, snapshot: Snapshot) -> bool:
    nodes = [snapshot.cluster.nodes.get(shard.node_id) for shard in replica.shards]
    return any(node is not None and (node.is_cordoned or node.is_draining) for node in nodes)
