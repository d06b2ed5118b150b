"""``/plan``: what the next pass would do, and what passes would do if something were otherwise."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.api.acting import ASKS_ONLY
from llmgw.api.deps import Plans
from llmgw.api.schemas.plan import OutlookOut, PlanOut, WhatIfIn
from llmgw.domain import definitions
from llmgw.domain.questions import Supposed, WhatIf
from llmgw.errors import Invalid

router = APIRouter(tags=["plan"])


@router.get("/plan")
async def plan(plans: Plans) -> PlanOut:
    """The actions of the next pass; nothing is applied."""
    return PlanOut.model_validate(await plans.plan())


@router.post("/plan/what-if", openapi_extra=ASKS_ONLY)
async def what_if(plans: Plans, asked: WhatIfIn) -> OutlookOut:
    """What the passes after a change would do, until nothing is left; nothing is applied."""
    return OutlookOut.model_validate(await plans.what_if(_question(asked)))


def _question(asked: WhatIfIn) -> WhatIf:
    if asked.definition is None:
        if not asked.name:
            raise Invalid("name: say which node or model is meant")
        return WhatIf(asked.supposed, name=asked.name)
    if asked.supposed is not Supposed.ADD or asked.name:
        raise Invalid("definition: goes with add alone, and without a name beside it")
    (model,) = definitions.load([asked.definition], path="models")
    return WhatIf(asked.supposed, definition=model)
