"""Which level of concurrency comes next; pure.

Doubles until a level breaks the promises, then halves the gap between the last good and the first
bad one until it is an eighth of the good one or nothing is left between them.
"""

from __future__ import annotations

from dataclasses import dataclass

_FINE_ENOUGH = 8


@dataclass(frozen=True, slots=True)
class Ramp:
    """Where the ramp stands: the highest level that kept the promises, the lowest that did not."""

    first: int
    most: int
    good: int = 0
    bad: int | None = None

    def after(self, concurrency: int, *, is_good: bool) -> Ramp:
        """The ramp once a level was judged; a good one above a bad one changes nothing."""
        if not is_good:
            bad = concurrency if self.bad is None else min(self.bad, concurrency)
            return Ramp(self.first, self.most, self.good, bad)
        if self.bad is not None and concurrency >= self.bad:
            return self
        return Ramp(self.first, self.most, max(self.good, concurrency), self.bad)

    def next(self) -> int | None:
        """The next level, or none when the answer is known well enough."""
        if self.bad is None:
            wanted = self.good * 2 if self.good else self.first
            return min(wanted, self.most) if self.good < self.most else None
        gap = self.bad - self.good
        if gap <= max(1, self.good // _FINE_ENOUGH):
            return None
        return self.good + gap // 2
