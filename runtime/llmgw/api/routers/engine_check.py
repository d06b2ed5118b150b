"""``/nodes/{node_id}/engine-check``: whether an engine there takes the options that we pass."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.api import reaching
from llmgw.api.acting import ASKS_ONLY
from llmgw.api.deps import Checks, Fleet
from llmgw.api.schemas.engine_check import EngineCheckIn, EngineCheckOut, ProgramOut

router = APIRouter(tags=["nodes"])


@router.post("/nodes/{node_id}/engine-check", openapi_extra=ASKS_ONLY)
async def engine_check(
    checks: Checks, fleet: Fleet, node_id: str, wanted: EngineCheckIn
) -> EngineCheckOut:
    """Ask the engine's programs on a node for their options; vLLM and SGLang take a minute."""
    reaching.check_connected(node_id, nodes=fleet.nodes())
    deeds = await checks.check_engine(node_id=node_id, engine=wanted.engine)
    return EngineCheckOut(
        node_id=node_id,
        engine=wanted.engine,
        is_good=bool(deeds) and all(deed.is_done for deed in deeds),
        programs=tuple(ProgramOut.model_validate(deed) for deed in deeds),
    )
