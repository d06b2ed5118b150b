"""``/models``: the catalog, and how much of each entry runs."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.api import finding
from llmgw.api.acting import Acting
from llmgw.api.deps import Catalogs, Fleet, Rolls
from llmgw.api.schemas.model import ModelOut, ModelsOut, RollIn
from llmgw.domain.views import ModelStatus

router = APIRouter(tags=["models"])


@router.get("/models")
async def models(fleet: Fleet, catalogs: Catalogs, status: ModelStatus | None = None) -> ModelsOut:
    """Every catalog entry, or those of one status."""
    found = [m for m in fleet.models() if status is None or m.status is status]
    return ModelsOut.model_validate({"models": found, "skipped": catalogs.shown().skipped})


@router.get("/models/{name}")
async def model(fleet: Fleet, name: str) -> ModelOut:
    """One catalog entry, by its name or an alias."""
    return ModelOut.model_validate(finding.model(fleet, name))


@router.post("/models/{name}/roll")
async def roll(rolls: Rolls, act: Acting, name: str, how: RollIn) -> ModelOut:
    """Replace the replicas that are of an older profile: one first, the others when it serves."""
    act.after = {"may_interrupt": how.may_interrupt}
    view = await rolls.roll(name, may_interrupt=how.may_interrupt, actor=act.actor.name)
    return ModelOut.model_validate(view)


@router.post("/models/{name}/retry")
async def retry(rolls: Rolls, name: str) -> ModelOut:
    """Start it anew now, where it failed and would wait longer."""
    return ModelOut.model_validate(rolls.retry(name))
