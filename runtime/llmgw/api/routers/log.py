"""``/nodes/{node_id}/logs``: the end of a log that a node keeps."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from llmgw.api import reaching
from llmgw.api.deps import Fleet, Logs
from llmgw.api.schemas.log import LogTailOut

router = APIRouter(tags=["logs"])

DEFAULT_LINES = 200
MOST_LINES = 2000


@router.get("/nodes/{node_id}/logs")
async def logs(
    node_logs: Logs,
    fleet: Fleet,
    node_id: str,
    source: str = "agent",
    lines: Annotated[int, Query(ge=1, le=MOST_LINES)] = DEFAULT_LINES,
) -> LogTailOut:
    """The last lines of ``source``, which is ``agent`` or a shard id; 503 without a stream."""
    reaching.check_connected(node_id, nodes=fleet.nodes())
    tail = await node_logs.logs(node_id=node_id, source=source, lines=lines)
    return LogTailOut.model_validate(tail)
