"""Tries again what a network or an origin spoilt, for as long as that helps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from llmgw.agent.weights.http_failures import Setback
from llmgw.kit.backoff import Backoff

STALL_S = 900.0
"""How long another process may hold a download without adding to it: comparing a large part with
its digest takes minutes."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often in a row nothing may come, how long to wait in between, and for whom else.

    A try after which more had come than ever before begins the count anew: a line that is cut a
    hundred times still brings the file.
    """

    tries: int = 5
    backoff: Backoff = field(default_factory=lambda: Backoff(base_s=1.0, max_s=60.0))
    draw: Callable[[], float] = random.random
    stall_s: float = STALL_S

    async def run(
        self,
        attempt: Callable[[], Awaitable[Setback | None]],
        *,
        reached: Callable[[], int] = lambda: 0,
    ) -> None:
        """Call ``attempt`` until it has no setback; raises that of the last try.

        ``reached`` tells how far it has come, in any unit that rises.
        """
        failures, best = 0, -1
        while (setback := await attempt()) is not None:
            failures = 1 if reached() > best else failures + 1
            best = max(best, reached())
            if failures >= self.tries:
                raise setback.error
            own_s = self.backoff.delay_s(attempt=failures - 1, draw=self.draw())
            await asyncio.sleep(max(own_s, setback.wait_s))
