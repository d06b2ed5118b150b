"""``/status``: the fleet on one page."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.api.deps import Fleet
from llmgw.api.schemas.status import StatusOut

router = APIRouter(tags=["status"])


@router.get("/status")
async def status(fleet: Fleet) -> StatusOut:
    """Counts, cards per class, free nodes per fabric, what is unplaced and why, who leads."""
    return StatusOut.model_validate(fleet.status())
