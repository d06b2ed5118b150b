"""Which replicas are too many, and go; pure.

They are drained, never cut: what is published last is stopped last. Nothing is moved to even out.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.control.reconciler import wanting
from llmgw.domain.actions import Drain
from llmgw.domain.catalog import Model
from llmgw.domain.nodes import Liveness, Node
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
    """What serves least, and is least sure to go on, is missed least.

    Among equals that with the fewest requests, then the youngest, whose caches are coldest.
    """
    return sorted(
        replicas,
        key=lambda replica: (
            replica.state is ReplicaState.READY,
            not is_stale(replica, model),
            not _is_on_doubtful_node(replica, snapshot),
            _inflight(replica, snapshot),
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


def _inflight(replica: Replica, snapshot: Snapshot) -> int:
    seen = snapshot.traffic.endpoints.get(replica.replica_id)
    return 0 if seen is None else seen.inflight


def _is_on_doubtful_node(replica: Replica, snapshot: Snapshot) -> bool:
    """One that an operator keeps free, or that is not heard."""
    nodes = [snapshot.cluster.nodes.get(shard.node_id) for shard in replica.shards]
    return any(node is not None and _is_doubtful(node) for node in nodes)


def _is_doubtful(node: Node) -> bool:
    return node.is_cordoned or node.is_draining or node.liveness is not Liveness.READY
