"""A clock that stands still until a test moves it."""

from __future__ import annotations

EPOCH_S = 1_800_000_000.0
"""Where wall time begins: an instant that no test takes for the real now."""


class FakeClock:
    """Fits ``llmgw.kit.clock.Clock``; both clocks move together, and only wall time can jump."""

    def __init__(self, *, monotonic_s: float = 1000.0, wall_s: float = EPOCH_S) -> None:
        self._monotonic_s = monotonic_s
        self._wall_s = wall_s

    def monotonic(self) -> float:
        return self._monotonic_s

    def wall(self) -> float:
        return self._wall_s

    def advance(self, duration_s: float) -> None:
        """Let time pass."""
        assert duration_s >= 0, "a monotonic clock never goes back"
        self._monotonic_s += duration_s
        self._wall_s += duration_s

    def jump(self, wall_s: float) -> None:
        """Set wall time, as an operator or NTP does."""
        self._wall_s = wall_s
