"""``/nodes/{node_id}/logs``: the end of a log that a node keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from llmgw.api.deps import Fleet, Logs
from llmgw.api.schemas.log import LogTailOut
from llmgw.domain.views import NodeView
from llmgw.errors import NotConnected, Unknown

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
    _check_connected(node_id, nodes=fleet.nodes())
    tail = await node_logs.logs(node_id=node_id, source=source, lines=lines)
    return LogTailOut.model_validate(tail)


def _check_connected(node_id: str, *, nodes: Sequence[NodeView]) -> None:
    node = next((node for node in nodes if node.node_id == node_id), None)
    if node is None:
        raise Unknown(f"no node {node_id!r} has ever registered here")
    if not node.is_connected:
        silent_s = f"{node.last_seen_s:.0f} s"
        raise NotConnected(f"the agent of {node_id} is not connected (silent for {silent_s})")
