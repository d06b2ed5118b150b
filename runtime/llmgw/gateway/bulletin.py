"""What the worker that scrapes tells all workers of an engine: a value, pure.

It goes over the load board.  What the engine does not publish is absent.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bulletin:
    """One endpoint at its last successful scrape.

    ``running`` and ``waiting`` are requests, ``kv`` is the part of the KV cache in use (0 to 1),
    ``drain`` how many requests it ends a second, smoothed, ``capacity`` the most that it was seen
    to run at a time; ``is_proven`` where it was once seen with requests waiting, which says that
    it runs no more.  ``scraped_at`` is on the monotonic clock, which all processes of a host share;
    absent before the first scrape.
    """

    running: float = 0.0
    waiting: float = 0.0
    kv: float | None = None
    drain: float | None = None
    capacity: float | None = None
    is_proven: bool = False
    scraped_at: float | None = None

    def runs(self, *, prior: float) -> float:
        """How many requests it runs at a time, as far as is known; ``prior`` is the guess."""
        seen = self.capacity or 0.0
        return seen if self.is_proven else max(seen, prior, 1.0)

    def is_fresh(self, now: float, stale_after_s: float) -> bool:
        """Whether it says something about this moment."""
        return self.scraped_at is not None and 0.0 <= now - self.scraped_at < stale_after_s


UNSEEN = Bulletin()
"""That of an endpoint that was never scraped."""
