"""A clock that stands still until something is due, and what is due when.

Whoever simulates days in minutes reads the time from here; it fits ``kit.clock.Clock``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

_EPOCH_S = 1_767_225_600.0
"""The time of day at the beginning: midnight of a first of January."""


class Agenda:
    """Acts in the order of their times; those of one time in the order in which they were noted."""

    def __init__(self) -> None:
        """The clock stands at 0 and nothing is due."""
        self._now = 0.0
        self._noted = 0
        self._acts: list[tuple[float, int, Callable[[], None]]] = []

    def monotonic(self) -> float:
        """Seconds since the beginning."""
        return self._now

    def wall(self) -> float:
        """Seconds since 1970, had it begun at a midnight."""
        return _EPOCH_S + self._now

    @property
    def next_at(self) -> float:
        """When the next act is due; infinitely late when there is none."""
        return self._acts[0][0] if self._acts else float("inf")

    def after(self, delay_s: float, act: Callable[[], None]) -> None:
        """Have ``act`` called once, ``delay_s`` from now."""
        self._noted += 1
        heapq.heappush(self._acts, (self._now + delay_s, self._noted, act))

    def advance(self, to_s: float) -> None:
        """Do all that is due by then, each at its time; the clock then stands at ``to_s``."""
        while self._acts and self._acts[0][0] <= to_s:
            self._now, _, act = heapq.heappop(self._acts)
            act()
        self._now = max(self._now, to_s)
