"""``/models/{name}/placement``: why a model runs where it does, or nowhere."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.api.deps import Fleet
from llmgw.api.schemas.placement import PlacementOut

router = APIRouter(tags=["models"])


@router.get("/models/{name}/placement")
async def placement(fleet: Fleet, name: str) -> PlacementOut:
    """Every gate and every node's verdict for every profile; the same decision as a pass makes."""
    return PlacementOut.model_validate(fleet.explain(name))
