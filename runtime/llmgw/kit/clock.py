"""The two clocks of a process, as something that can be handed in.

Deciders take ``now`` as a value and never import this; movers and joiners take a ``Clock``.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that only rise, and seconds since 1970."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean something."""
        ...

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump."""
        ...


class SystemClock:
    """The operating system's clocks, without a call of ours in between: hot code reads them."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


class WakefulClock:
    """The same, of which ``monotonic`` goes on while the machine is suspended.

    For what others count too: a lease runs out while its holder sleeps.
    """

    wall = staticmethod(time.time)

    @staticmethod
    def monotonic() -> float:
        """Seconds since the machine was started, those in which it slept included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)
