"""Whether an engine is ready, waited for within a bound: it serves, and it is ours that serves.

``shard`` calls it once for each start, and once more for an engine that it adopts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx

from llmgw.agent.supervisor import interviewing, port_owner
from llmgw.agent.supervisor.interviewing import HttpCheck
from llmgw.agent.supervisor.processes import Process

_FIRST_PAUSE_S = 0.1
_SLOWDOWN = 1.5


class Readiness:
    """Waits for one rank; one without a port is ready by staying alive for a while."""

    def __init__(
        self,
        check: HttpCheck | None,
        *,
        client: httpx.AsyncClient,
        interval_s: float,
        alive_grace_s: float,
        paused_s: float,
    ) -> None:
        """No ``check`` means a rank that answers nobody; ``interval_s`` is the longest pause.

        An engine that is stopped by a signal, and not let go on for ``paused_s``, is given up.
        """
        self._check = check
        self._client = client
        self._interval_s = interval_s
        self._alive_grace_s = alive_grace_s
        self._paused_s = paused_s

    async def wait(
        self, engine: Process, *, budget_s: float, is_wanted: Callable[[], bool]
    ) -> str | None:
        """Empty once it is ready, the reason once the budget is spent; nothing when it has ended.

        The first look comes at once, so that an adopted engine at work is ready without a pause.
        It ends with nothing, too, when the engine is not ``is_wanted`` any more.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + budget_s
        pause_s, ran_at = min(_FIRST_PAUSE_S, self._interval_s), loop.time()
        while problem := await self._problem(engine):
            left_s = give_up_at - loop.time()
            if left_s <= 0:
                return f"not ready within {budget_s:g} s: {problem}"
            ran_at = ran_at if await asyncio.to_thread(engine.is_paused) else loop.time()
            if loop.time() - ran_at >= self._paused_s:
                return f"it was stopped by a signal and did not go on for {self._paused_s:g} s"
            if await engine.wait(timeout_s=min(pause_s, left_s)) or not is_wanted():
                return None
            pause_s = min(pause_s * _SLOWDOWN, self._interval_s)
        return "" if is_wanted() and not engine.has_ended else None

    async def _problem(self, engine: Process) -> str:
        check = self._check
        if check is None:
            has_ended = await engine.wait(timeout_s=self._alive_grace_s)
            return "it ended" if has_ended else ""
        return await interviewing.serving_problem(check, client=self._client) or (
            await asyncio.to_thread(lambda: port_owner.owner_problem(check, pids=engine.pids()))
        )
