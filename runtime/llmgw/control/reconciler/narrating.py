"""Tells what an action does, to whom and why, as it is shown to people; pure."""

from __future__ import annotations

import re

from llmgw.domain.actions import Action, ExpireNode, Place
from llmgw.domain.outlooks import ActionView
from llmgw.domain.snapshots import Cluster

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


def kind(one: Action) -> str:
    """What a kind of action is called: ``place``, ``stop_shards``."""
    return _WORD.sub("_", type(one).__name__).lower()


def action(one: Action, cluster: Cluster) -> ActionView:
    """An action on the cluster as it is before it."""
    if isinstance(one, ExpireNode):
        reason = f"{one.reason}: {one.liveness}"
        return ActionView(kind(one), reason=reason, node_ids=(one.node_id,))
    replica_id: str | None = getattr(one, "replica_id", None)
    replica = one.replica if isinstance(one, Place) else cluster.replicas.get(replica_id or "")
    if replica is not None:
        return ActionView(
            kind(one),
            reason=one.reason,
            model=replica.model,
            profile=replica.profile,
            replica_id=replica.replica_id,
            node_ids=tuple(shard.node_id for shard in replica.shards),
        )
    node_id: str | None = getattr(one, "node_id", None)
    return ActionView(
        kind(one),
        reason=one.reason,
        model=getattr(one, "model", None),
        replica_id=replica_id,
        node_ids=() if node_id is None else (node_id,),
    )
