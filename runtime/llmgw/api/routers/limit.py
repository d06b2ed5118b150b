"""``/limits``: what organisations, teams, projects and keys may use."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.api.acting import Acting
from llmgw.api.deps import Places
from llmgw.api.schemas.key import Id
from llmgw.api.schemas.limit import LevelOut, LevelsOut, LimitsIn
from llmgw.domain import limits as rules
from llmgw.domain.principals import Scope

router = APIRouter(tags=["limits"])


@router.get("/limits")
async def limits(places: Places) -> LevelsOut:
    """Every place that limits something."""
    levels = [LevelOut.of(level) for level in await places.limits()]
    return LevelsOut.model_validate({"levels": levels})


@router.get("/limits/{scope}/{place}")
async def limit(places: Places, scope: Scope, place: Id) -> LevelOut:
    """What one place limits by itself; those above it hold too."""
    return LevelOut.of(await places.level(scope, place))


@router.patch("/limits/{scope}/{place}")
async def change(
    places: Places, act: Acting, scope: Scope, place: Id, wanted: LimitsIn
) -> LevelOut:
    """Set limits, or take them away with null; what is left out stays."""
    act.target = f"{scope}:{place}"
    act.before = rules.told(await places.level(scope, place))
    level = await places.limit(scope, place, wanted.values(), actor=act.actor)
    act.after = rules.told(level)
    return LevelOut.of(level)
