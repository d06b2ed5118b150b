"""Ends the processes of a shard: politely by its driver's plan, then with force, never a stranger.

``shard`` says when; nothing here knows of states or reports.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from llmgw.agent.engines.contract import StopPlan
from llmgw.agent.supervisor import processes
from llmgw.agent.supervisor.processes import Process
from llmgw.kit import logs

SIDECAR_STOP_S = 5.0
_log = logs.get(__name__)


async def by_plan(engine: Process, plan: StopPlan, *, at_most_s: float = math.inf) -> None:
    """The plan's steps, each no longer than ``at_most_s``; SIGKILL for what outlives them."""
    # Whoever hides from its group is known by its parent, as long as that lives.
    await asyncio.to_thread(engine.pids)
    for one in plan.steps:
        engine.signal_group(one.signal)
        if await engine.wait(timeout_s=min(one.wait_s, at_most_s)):
            return
    _log.warning("engine_killed", name=engine.identity.name, pid=engine.identity.pid)
    await engine.end()


async def sidecars(found: Sequence[Process], *, may_finish: bool) -> None:
    """The processes beside the engine, the last one started first."""
    for sidecar in reversed(found):
        if may_finish:
            await sidecar.stop(timeout_s=SIDECAR_STOP_S)
        else:
            await sidecar.end()


async def everything(found: Sequence[Process], *, mark: str) -> None:
    """Every process of a shard at once, also those that nobody wrote down."""
    for process in reversed(found):
        await process.end()
    await processes.sweep(None, mark=mark)
