"""Bounds how often somebody may guess: so many tries in a window, one window a bucket.

A bucket is an address that signs in, or a person that changes its password: never a host, since
attackers have many and an office behind one router has one. ``signing_in`` asks before it looks at
a password. State is of this process and lost with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.errors import TooManyAttempts
from llmgw.kit.clock import Clock

_CAPACITY = 10_000


@dataclass(slots=True)
class _Window:
    began: float
    count: int = 0


class Throttle:
    """The windows of all buckets."""

    def __init__(
        self, *, max_attempts: int, window_s: float, clock: Clock, capacity: int = _CAPACITY
    ) -> None:
        """``capacity`` bounds the windows, since anybody can open some."""
        self._max_attempts = max_attempts
        self._window_s = window_s
        self._clock = clock
        self._capacity = capacity
        self._windows: dict[str, _Window] = {}

    def __len__(self) -> int:
        """How many windows are remembered."""
        return len(self._windows)

    def attempt(self, bucket: str) -> None:
        """Count a try; ``TooManyAttempts`` for one too many, which does not make it wait longer."""
        now = self._clock.monotonic()
        window = self._windows.get(bucket)
        if window is None or now - window.began > self._window_s:
            self._windows.pop(bucket, None)
            self._make_room(now)
            window = self._windows[bucket] = _Window(now)
        if window.count >= self._max_attempts:
            raise _refused()
        window.count += 1

    def clear(self, bucket: str) -> None:
        """Forget the tries: the right password was given."""
        self._windows.pop(bucket, None)

    def _make_room(self, now: float) -> None:
        """Never by letting one go that is shut out: to fill the table would let guessers back in.

        Windows lie in the order of their begin.
        """
        if len(self._windows) < self._capacity:
            return
        old = [name for name, one in self._windows.items() if now - one.began > self._window_s]
        for name in old:
            del self._windows[name]
        if old:
            return
        spent = self._max_attempts
        victim = min(self._windows, key=lambda name: self._windows[name].count)
        if self._windows[victim].count >= spent:
            raise _refused()
        del self._windows[victim]


def _refused() -> TooManyAttempts:
    return TooManyAttempts("too many attempts; try again later")
