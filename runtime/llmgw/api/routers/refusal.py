"""``/refusals``: who wanted to join and was not let in, and why."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.api.deps import TurnedAway
from llmgw.api.schemas.refusal import RefusalsOut

router = APIRouter(tags=["nodes"])


@router.get("/refusals")
async def refusals(turned_away: TurnedAway, node: str | None = None) -> RefusalsOut:
    """The last refusal of each caller; ``node`` is its word for itself or its certificate's."""
    found = [
        r for r in turned_away.refusals() if node is None or node in {r.node_id, r.common_name}
    ]
    return RefusalsOut.model_validate({"refusals": found})
