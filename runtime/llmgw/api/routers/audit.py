"""``/audit``: who did what to the fleet, and what was refused."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from llmgw.api.deps import AuditLog
from llmgw.api.schemas.audit import AuditIn, AuditOut
from llmgw.domain.stored import AuditFilter

router = APIRouter(tags=["audit"])


@router.get("/audit")
async def audit(log: AuditLog, asked: Annotated[AuditIn, Query()]) -> AuditOut:
    """The newest entries that pass the filters, the newest first; 501 without a store."""
    wanted = AuditFilter(**asked.model_dump(exclude={"limit"}))
    return AuditOut.model_validate({"entries": await log.page(wanted, limit=asked.limit)})
