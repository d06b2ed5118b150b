"""``/leader``: who leads, of the control planes on one store."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.api.deps import Leads
from llmgw.api.schemas.leader import LeaderOut

router = APIRouter(tags=["status"])


@router.get("/leader")
async def leader(leads: Leads) -> LeaderOut:
    """How this control plane stands, and the admin address of the one that leads."""
    return LeaderOut.model_validate(leads.lead())
