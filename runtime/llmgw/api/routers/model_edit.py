"""Changes of single models: added, removed, scaled, described, given fallbacks.

Each takes ``dry_run``, which tells what would come of it and changes nothing.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query

from llmgw.api import acting, disclosing, reading_models
from llmgw.api.acting import Acting
from llmgw.api.deps import Catalogs
from llmgw.api.schemas.catalog import (
    AddIn,
    DescriptionIn,
    EntryOut,
    FallbacksIn,
    OutcomeOut,
    ScalingIn,
    SourceIn,
    SourceOut,
)
from llmgw.domain.catalog_views import Outcome, ScalingWish

router = APIRouter(tags=["models"])

DryRun = Annotated[bool, Query(description="Say what would come of it; change nothing.")]


@router.post("/models", status_code=HTTPStatus.CREATED)
async def add(
    catalogs: Catalogs, act: Acting, wanted: AddIn, *, dry_run: DryRun = False
) -> OutcomeOut:
    """Add a model; it is checked whole, its source is looked for, and it is there at once."""
    definition = await asyncio.to_thread(reading_models.one, wanted.definition)
    act.target = str(definition.get("name", ""))[:128]
    outcome = await catalogs.add(
        definition,
        may_replace=wanted.replace,
        has_source_check=wanted.check_source,
        actor=act.actor.name,
        is_trial=dry_run,
    )
    return _told(act, outcome, is_trial=dry_run, has_source_check=wanted.check_source)


@router.post("/models/check-source", openapi_extra={**acting.ASKS_ONLY})
async def check_source(catalogs: Catalogs, asked: SourceIn) -> SourceOut:
    """Whether weights are where a source says, as far as the control plane can tell."""
    return SourceOut.model_validate(await catalogs.check_source(asked.source))


@router.get("/models/{name}/definition")
async def definition(catalogs: Catalogs, name: str) -> EntryOut:
    """One entry as it was written, by its name or an alias."""
    return EntryOut.model_validate(catalogs.entry(name))


@router.delete("/models/{name}", status_code=HTTPStatus.ACCEPTED)
async def remove(
    catalogs: Catalogs, act: Acting, name: str, *, dry_run: DryRun = False
) -> OutcomeOut:
    """Remove a stored model; its replicas drain and stop, and their cards are free again."""
    outcome = await catalogs.remove(name, actor=act.actor.name, is_trial=dry_run)
    return _told(act, outcome, is_trial=dry_run)


@router.patch("/models/{name}")
async def describe(
    catalogs: Catalogs, act: Acting, name: str, wanted: DescriptionIn, *, dry_run: DryRun = False
) -> OutcomeOut:
    """Change the line for people who choose."""
    outcome = await catalogs.describe(
        name, wanted.description, actor=act.actor.name, is_trial=dry_run
    )
    return _told(act, outcome, is_trial=dry_run)


@router.patch("/models/{name}/scaling")
async def scale(
    catalogs: Catalogs, act: Acting, name: str, wanted: ScalingIn, *, dry_run: DryRun = False
) -> OutcomeOut:
    """Change how many replicas run, and nothing else; the answer has the scaling in force."""
    wish = ScalingWish(wanted.min, max=wanted.max, idle_timeout=wanted.idle_timeout)
    outcome = await catalogs.scale(name, wish, actor=act.actor.name, is_trial=dry_run)
    return _told(act, outcome, is_trial=dry_run)


@router.put("/models/{name}/fallbacks")
async def fallbacks(
    catalogs: Catalogs, act: Acting, name: str, wanted: FallbacksIn, *, dry_run: DryRun = False
) -> OutcomeOut:
    """Change which models answer in its stead."""
    outcome = await catalogs.fall_back(
        name, wanted.fallbacks, actor=act.actor.name, is_trial=dry_run
    )
    return _told(act, outcome, is_trial=dry_run)


def _told(
    act: Acting, outcome: Outcome, *, is_trial: bool, has_source_check: bool = True
) -> OutcomeOut:
    disclosing.note(act, outcome, is_trial=is_trial)
    if not has_source_check:
        act.after = {**(act.after or {}), "source_check": False}
    return OutcomeOut.model_validate(outcome)
