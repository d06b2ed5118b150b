"""``/brake``: the brake on a mass loss, and an operator's word that it is none."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.api.acting import Acting
from llmgw.api.deps import Brakes, Fleet
from llmgw.api.schemas.brake import BrakeLiftedOut, BrakeShownOut

router = APIRouter(tags=["brake"])


@router.get("/brake")
async def brake(fleet: Fleet) -> BrakeShownOut:
    """Whether so many nodes fell silent at once that none is given up and nothing is placed."""
    return BrakeShownOut.model_validate({"brake": fleet.status().control.brake})


@router.post("/brake/lift")
async def lift(brakes: Brakes, act: Acting) -> BrakeLiftedOut:
    """Judge the nodes that are silent now as any other: they are lost when their time is over."""
    act.action, was_on = "brake.lift", brakes.lift_brake()
    act.after = {"was_on": was_on}
    return BrakeLiftedOut(was_on=was_on)
