"""Waits until an engine that gets no new work has finished what it had, by its own word.

``shard`` asks when it drains; who bounds the wait is the control plane, which stops it anyway.
"""

from __future__ import annotations

import asyncio

import httpx

from llmgw.agent.supervisor import interviewing
from llmgw.agent.supervisor.interviewing import HttpCheck
from llmgw.agent.supervisor.processes import Process

SETTLE_S = 2.0
"""Gateways learn of the drain meanwhile; what they had sent by then has arrived."""
_INTERVAL_S = 0.5
_LOOKS = 2


async def until_idle(engine: Process, check: HttpCheck, *, client: httpx.AsyncClient) -> bool:
    """Return true when it has had no request for two looks; false once it has ended."""
    loop = asyncio.get_running_loop()
    settled_at, idle_looks = loop.time() + SETTLE_S, 0
    while not await engine.wait(timeout_s=_INTERVAL_S):
        found = await interviewing.figures(check, client=client)
        idle_looks = idle_looks + 1 if found.requests == 0 and loop.time() >= settled_at else 0
        if idle_looks >= _LOOKS:
            return True
    return False
