"""What of a decision no longer holds when it is carried out; pure.

Deciding over a large fleet takes a while beside the event loop, and agents go on speaking. What was
decided of a replica that has changed since is left to the next pass; so is all that rests on the
loss of a node that has spoken, and on others that served and no longer do.
"""

from __future__ import annotations

from llmgw.domain.actions import Action, Drain, Evict, ExpireNode, LoseShards, Place, StopStray
from llmgw.domain.nodes import Liveness
from llmgw.domain.replicas import ReplicaState
from llmgw.domain.snapshots import Cluster


class Outdated:
    """Asked of each action of one decision, in their order."""

    def __init__(self, *, seen: Cluster, found: Cluster) -> None:
        """``seen`` is what was decided on, ``found`` what there is before anything is done."""
        self._void = _changed(seen, found)
        self._lessened = _lessened(seen, found)
        self._taken = _taken(seen, found)
        self._is_any_void = False

    def covers(self, action: Action, cluster: Cluster) -> bool:
        """Whether the action is to be left out, with the cluster as it is by now."""
        is_void = self._is_void(action, cluster)
        if is_void:
            self._is_any_void = True
            if (replica_id := _replica_of(action)) is not None:
                self._void.add(replica_id)
        return is_void

    def _is_void(self, action: Action, cluster: Cluster) -> bool:
        match action:
            case ExpireNode():
                node = cluster.nodes.get(action.node_id)
                return node is None or node.last_seen_at != action.last_seen_at
            case Place():
                # It may be for one that did not go, or on what did not become free.
                return self._is_any_void or any(
                    shard.node_id in self._taken or _is_kept_free(shard.node_id, cluster)
                    for shard in action.replica.shards
                )
            case LoseShards():
                node = cluster.nodes.get(action.node_id)
                if node is None or node.liveness is not Liveness.LOST:
                    return True
            case Drain() | Evict():
                replica = cluster.replicas.get(action.replica_id)
                if replica is not None and replica.model in self._lessened:
                    return True
        return _replica_of(action) in self._void


def _replica_of(action: Action) -> str | None:
    """The replica that there was before it and that it is about."""
    if isinstance(action, Place | StopStray | ExpireNode):
        return None
    return getattr(action, "replica_id", None)


def _is_kept_free(node_id: str, cluster: Cluster) -> bool:
    """Whether an operator has said a word on the node meanwhile."""
    node = cluster.nodes.get(node_id)
    return node is None or node.is_cordoned or node.is_draining


def _taken(seen: Cluster, found: Cluster) -> set[str]:
    """The nodes on which something was found to run meanwhile."""
    fresh = [found.replicas[replica_id] for replica_id in found.replicas.keys() - seen.replicas]
    return {shard.node_id for replica in fresh for shard in replica.shards}


def _changed(seen: Cluster, found: Cluster) -> set[str]:
    """The replicas that are not what they were."""
    return {
        replica_id
        for replica_id, replica in seen.replicas.items()
        if (now := found.replicas.get(replica_id)) is not replica and now != replica
    }


def _lessened(seen: Cluster, found: Cluster) -> set[str]:
    """The models of which one that served does so no longer."""
    return {
        seen.replicas[replica_id].model
        for replica_id in _changed(seen, found)
        if seen.replicas[replica_id].state is ReplicaState.READY
        and ((now := found.replicas.get(replica_id)) is None or now.state is not ReplicaState.READY)
    }
