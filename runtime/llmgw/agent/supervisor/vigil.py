"""Notices an engine that hangs: it answers nothing or its work stands still, and it does no work.

``shard`` keeps one vigil over a ready engine. Silence proves nothing, because an engine at work may
answer late, and neither do counters that stand still, because some move only when a request ends:
what counts as hung has besides used no processor and no card for all that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from llmgw.agent.supervisor import interviewing
from llmgw.agent.supervisor.interviewing import Figures, HttpCheck
from llmgw.agent.supervisor.processes import Process
from llmgw.config.tending import SupervisorSettings
from llmgw.domain import work
from llmgw.domain.work import ShardWork

_WINDOWS = 10
"""Work is measured over so many parts of the bound, so that a moment's housekeeping is none."""

_SILENT = "it has not answered"
_STILL = "it answers, but what it has to do stands still"

Measure = Callable[[], Awaitable[ShardWork]]


@dataclass(slots=True)
class Suspicion:
    """Whether one engine hangs, look after look; pure."""

    hang_timeout_s: float
    longest_gap_s: float
    """Two looks further apart than this: the agent itself stood still, which proves nothing."""
    _looked_at: float = 0.0
    _known: Figures | None = None
    """The newest figures that it told."""
    _idle_since: float | None = None
    _measured: tuple[float, ShardWork] | None = None

    def worry(self, found: Figures, *, now: float) -> str:
        """What looks wrong, so that its work is worth measuring; nothing while it is well."""
        gap_s, self._looked_at = now - self._looked_at, now
        problem = _problem(found, self._known)
        if found.requests is not None:
            self._known = found
        if not problem or gap_s > self.longest_gap_s:
            self._idle_since = self._measured = None
        return problem

    def idle_s(self, done: ShardWork, *, now: float) -> float:
        """How long it has done no work; asked after each ``worry`` that finds something."""
        if self._idle_since is None or self._measured is None:
            self._idle_since, self._measured = now, (now, done)
            return 0.0
        at, before = self._measured
        is_window_over = now - at >= self.hang_timeout_s / _WINDOWS
        since = before if is_window_over else None
        if work.has_worked(since, done, elapsed_s=now - at):
            self._idle_since = now
        if is_window_over:
            self._measured = (now, done)
        return now - self._idle_since


async def keep(
    engine: Process,
    check: HttpCheck,
    *,
    client: httpx.AsyncClient,
    measure: Measure,
    is_held: Callable[[str], bool],
    settings: SupervisorSettings,
) -> str:
    """Look again and again; why the engine counts as hung, or nothing once it has ended.

    Silence proves nothing while its address is not ``is_held`` by this machine: it would serve
    again once that comes back, and another one could not even listen.
    """
    loop = asyncio.get_running_loop()
    interval_s, hang_timeout_s = settings.health_interval, settings.hang_timeout
    longest_gap_s = 4 * (interval_s + 2 * interviewing.PROBE_TIMEOUT_S)
    suspicion = Suspicion(hang_timeout_s, longest_gap_s=longest_gap_s)
    while not await engine.wait(timeout_s=interval_s):
        found = await interviewing.figures(check, client=client)
        if not found.answers and not await asyncio.to_thread(is_held, check.address):
            continue
        problem = suspicion.worry(found, now=loop.time())
        if problem:
            idle_s = suspicion.idle_s(await measure(), now=loop.time())
            if idle_s >= hang_timeout_s:
                return (
                    f"no progress: {problem} at {check.base_url}, and its processes did no work "
                    f"for {idle_s:.0f} s"
                )
    return ""


def _problem(found: Figures, known: Figures | None) -> str:
    if not found.answers:
        return _SILENT
    if found.is_late:
        return _STILL
    has_moved = known is None or known.work_done != found.work_done
    return _STILL if found.requests and not has_moved else ""
