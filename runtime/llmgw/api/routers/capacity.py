"""``/capacity``: what ways to run models were measured to carry."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.api.acting import Acting
from llmgw.api.deps import Fleet, Measured
from llmgw.api.schemas.capacity import CapacitiesOut, CapacityOut, MeasuredIn
from llmgw.errors import Unknown

router = APIRouter(tags=["capacity"])


@router.get("/capacity")
async def capacities(measured: Measured, model: str | None = None) -> CapacitiesOut:
    """The last measurement of each model and profile; ``model`` narrows the list."""
    found = [one for one in await measured.measurements() if model in {None, one.model}]
    return CapacitiesOut.model_validate({"capacities": found})


@router.put("/capacity")
async def measure(measured: Measured, fleet: Fleet, act: Acting, told: MeasuredIn) -> CapacityOut:
    """Keep a measurement of a running replica for its model and profile; it replaces the last."""
    act.action, act.target = "capacity.measure", told.replica_id
    replica = next((r for r in fleet.replicas() if r.replica_id == told.replica_id), None)
    if replica is None:
        raise Unknown(
            f"no replica {told.replica_id!r} runs, so it is not known which profile was measured"
        )
    kept = await measured.measure(
        model=replica.model,
        profile=replica.profile,
        result=told.result.model_dump(),
        slo=told.slo.model_dump(),
    )
    return CapacityOut.model_validate(kept)
