"""``/engines``: which engines are on which nodes, and where one is missing that should be there."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.api.deps import Fleet
from llmgw.api.schemas.engine import EnginesOut
from llmgw.domain import engines_shown

router = APIRouter(tags=["engines"])


@router.get("/engines")
async def engines(fleet: Fleet, engine: str | None = None) -> EnginesOut:
    """Every version of every engine that nodes have or should have; ``engine`` narrows the list."""
    found = [one for one in engines_shown.of(fleet.nodes()) if engine in {None, one.engine}]
    return EnginesOut.model_validate({"engines": found})
