"""How fast a download comes; pure."""

from __future__ import annotations

from collections import deque

WINDOW_S = 30.0
_LEAST_S = 1.0


class Pace:
    """The rate over the last half minute, so that a cut shows and an old one is forgotten."""

    def __init__(self) -> None:
        """Nothing is known before two looks that are a second apart."""
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, *, done_bytes: int, at_s: float) -> None:
        """So many bytes have come; a figure that fell means that it begins anew."""
        if self._seen and done_bytes < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((at_s, done_bytes))
        while len(self._seen) > 2 and at_s - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()

    def bytes_per_s(self) -> float | None:
        """Bytes a second, unknown at first."""
        if not self._seen:
            return None
        (first_at, first), (last_at, last) = self._seen[0], self._seen[-1]
        if last_at - first_at < _LEAST_S:
            return None
        return (last - first) / (last_at - first_at)
