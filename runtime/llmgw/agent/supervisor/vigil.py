"""Notices an engine that serves no more: no answer for long, and no work done meanwhile.

``shard`` keeps one vigil over a ready engine. Silence alone proves nothing, because an engine at
work may answer late; one that uses no processor time either is hung.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx

from llmgw.agent.supervisor import readiness
from llmgw.agent.supervisor.processes import Process
from llmgw.agent.supervisor.readiness import HttpCheck

IDLE_SHARE = 0.1
"""Less than this share of one core is no work."""


@dataclass(slots=True)
class Silence:
    """How long an engine has been silent, and the processor time that it had used by then."""

    hang_timeout_s: float
    longest_gap_s: float
    """Two looks further apart than this: the agent itself stood still, which proves nothing."""
    since_at: float | None = None
    cpu_at_s: float = 0.0
    looked_at: float = 0.0

    def broken(self, *, now: float) -> None:
        """The engine answered."""
        self.since_at, self.looked_at = None, now

    def goes_on(self, *, now: float, cpu_s: float) -> bool:
        """The engine did not answer; whether it is hung."""
        gap_s, self.looked_at = now - self.looked_at, now
        if self.since_at is None or gap_s > self.longest_gap_s:
            self.since_at, self.cpu_at_s = now, cpu_s
            return False
        silent_s = now - self.since_at
        if silent_s < self.hang_timeout_s:
            return False
        used_s, self.since_at, self.cpu_at_s = cpu_s - self.cpu_at_s, now, cpu_s
        # Negative when a process of it has ended, which is a sign of life too.
        return 0.0 <= used_s < IDLE_SHARE * silent_s


async def keep(
    engine: Process,
    check: HttpCheck,
    *,
    client: httpx.AsyncClient,
    interval_s: float,
    hang_timeout_s: float,
) -> str:
    """Look again and again; why the engine counts as hung, or nothing once it has ended."""
    loop = asyncio.get_running_loop()
    silence = Silence(hang_timeout_s, longest_gap_s=4 * (interval_s + readiness.PROBE_TIMEOUT_S))
    while not await engine.wait(timeout_s=interval_s):
        if await readiness.answers(check, client=client):
            silence.broken(now=loop.time())
            continue
        cpu_s = await asyncio.to_thread(engine.cpu_s)
        if silence.goes_on(now=loop.time(), cpu_s=cpu_s):
            return (
                f"no progress: {check.base_url} has not answered for {hang_timeout_s:g} s, "
                "and its processes did no work meanwhile"
            )
    return ""
