"""``/decisions``: what the last passes did, and why."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from llmgw.api.deps import Decided
from llmgw.api.schemas.decision import DecisionsOut

router = APIRouter(tags=["decisions"])

DEFAULT_PASSES = 20
MOST_PASSES = 1000


@router.get("/decisions")
async def decisions(
    decided: Decided,
    limit: Annotated[int, Query(ge=1, le=MOST_PASSES)] = DEFAULT_PASSES,
    since: Annotated[float | None, Query(description="Seconds since 1970.")] = None,
) -> DecisionsOut:
    """The last passes of this server that did something, the newest first."""
    found = await decided.decisions(limit=limit, since=since)
    return DecisionsOut.model_validate({"passes": found})
