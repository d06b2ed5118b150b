"""``/catalog``: all models as they were written, and all of them changed at once."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query

from llmgw.api import disclosing, reading_models
from llmgw.api.acting import Acting
from llmgw.api.deps import Catalogs
from llmgw.api.schemas.catalog import CatalogIn, CatalogOut, OutcomeOut

router = APIRouter(tags=["catalog"])


@router.get("/catalog")
async def catalog(catalogs: Catalogs) -> CatalogOut:
    """Every entry as it was written, and stored ones that were left out."""
    return CatalogOut.model_validate(catalogs.shown())


@router.put("/catalog")
async def apply(
    catalogs: Catalogs,
    act: Acting,
    wanted: CatalogIn,
    *,
    dry_run: Annotated[bool, Query(description="Say what would come of it.")] = False,
) -> OutcomeOut:
    """Make the stored models those that are given, all in one step or none."""
    outcome = await catalogs.apply(
        await asyncio.to_thread(reading_models.several, wanted.models),
        may_remove=wanted.prune,
        has_source_check=wanted.check_sources,
        actor=act.actor.name,
        is_trial=dry_run,
    )
    disclosing.note(act, outcome, is_trial=dry_run)
    if not wanted.check_sources:
        act.after = {**(act.after or {}), "source_check": False}
    return OutcomeOut.model_validate(outcome)
