"""``/replicas``: what runs, shard by shard."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.api import finding
from llmgw.api.deps import Fleet
from llmgw.api.schemas.replica import ReplicaOut, ReplicasOut
from llmgw.domain.replicas import ReplicaState
from llmgw.errors import Unknown

router = APIRouter(tags=["replicas"])


@router.get("/replicas")
async def replicas(
    fleet: Fleet,
    model: str | None = None,
    node: str | None = None,
    state: ReplicaState | None = None,
) -> ReplicasOut:
    """Every replica; each filter narrows the list, ``model`` by a name or an alias."""
    running = fleet.replicas()
    # The replicas of a model that was removed go on under its name until they have ended.
    if model is not None and all(r.model != model for r in running):
        model = finding.model(fleet, model).name
    found = [
        r
        for r in running
        if (model is None or r.model == model)
        and (node is None or any(s.node_id == node for s in r.shards))
        and (state is None or r.state is state)
    ]
    return ReplicasOut.model_validate({"replicas": found})


@router.get("/replicas/{replica_id}")
async def replica(fleet: Fleet, replica_id: str) -> ReplicaOut:
    """One replica."""
    for view in fleet.replicas():
        if view.replica_id == replica_id:
            return ReplicaOut.model_validate(view)
    raise Unknown(f"no replica {replica_id!r} runs; failed ones leave their reason on the model")
