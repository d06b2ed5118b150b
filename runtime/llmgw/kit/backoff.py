"""How long to wait before the next try: exponential, capped, jittered; pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays of ``base_s * 2^attempt`` up to ``max_s``, each spread down by up to ``jitter``."""

    base_s: float
    max_s: float
    jitter: float = 0.5

    def delay_s(self, *, attempt: int, draw: float) -> float:
        """Seconds before try ``attempt`` (0 is the first retry); ``draw`` is uniform in [0, 1)."""
        ceiling = min(self.max_s, self.base_s * 2.0 ** min(attempt, 62))
        return ceiling * (1.0 - self.jitter * draw)
