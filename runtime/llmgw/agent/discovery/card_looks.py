"""Looks at the cards one time after the other, however long a look takes.

A driver without persistence mode makes each look last seconds a card, and nobody may wait for that
with a heartbeat: who asks gets the look that ends in time, and a late one goes to who asks next.
"""

from __future__ import annotations

from collections.abc import Callable

from llmgw.agent.discovery.findings import Cards
from llmgw.errors import DeadlinePassed
from llmgw.kit.clock import Clock
from llmgw.kit.late_work import LateWork
from llmgw.kit.offloading import Lane

_GIVE_UP_S = 60.0
"""A look that lasts longer hangs."""

_PAUSE_SHARE = 3.0
"""So many times as long as a look took is none taken: at most a quarter of the time is spent."""


class CardLooks:
    """The looks of one agent."""

    def __init__(
        self, look: Callable[[], Cards], *, clock: Clock, give_up_s: float = _GIVE_UP_S
    ) -> None:
        """``look`` may block, and hangs if it does so for longer than ``give_up_s``."""
        self.last = Cards()
        """The last look that ended."""
        self.ended_at = float("-inf")
        self._look = look
        self._clock = clock
        self._give_up_s = give_up_s
        self._lane = Lane(name="reading the cards")
        self._looks = LateWork(self._take, name="discovery.cards")
        self._due_at = float("-inf")

    async def now(self, *, wait_s: float) -> Cards | None:
        """The cards; ``None`` while a look is under way, and in the pause after a long one."""
        if not self._looks.is_under_way and self._clock.monotonic() < self._due_at:
            return None
        return await self._looks.result(wait_s=wait_s)

    async def _take(self) -> Cards:
        started = self._clock.monotonic()
        try:
            self.last = await self._lane.run(self._look, timeout_s=self._give_up_s)
        except DeadlinePassed as error:
            self.last = Cards(failures=(error.message,))
        self.ended_at = self._clock.monotonic()
        self._due_at = self.ended_at + (self.ended_at - started) * _PAUSE_SHARE
        return self.last
