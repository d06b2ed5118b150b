"""Decide whether an endpoint that failed may be tried again; pure, ``now`` is passed in.

``endpoints`` holds one breaker an endpoint; ``picking`` reads it, ``dispatch`` takes and returns
its permits.  Only outcomes that are the endpoint's fault count (``outcomes`` says which).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Outcome(enum.Enum):
    """What an attempt says about its endpoint."""

    OK = "ok"
    FAILED = "failed"
    NEUTRAL = "neutral"


class Permit(enum.Enum):
    """What a breaker lets an attempt be."""

    REFUSED = "refused"
    ORDINARY = "ordinary"
    PROBE = "probe"


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """After how many failures in a row an endpoint is left alone, and for how long."""

    failure_threshold: int = 3
    open_s: float = 5.0
    open_max_s: float = 60.0


class Breaker:
    """Closed, open for a time that doubles, then half open for one probe.

    ``is_closed`` and ``is_calm`` (closed without a recent failure, so that one more success changes
    nothing) are plain attributes because every request reads them.
    """

    __slots__ = ("_open_s", "_probing", "_rules", "_streak", "is_calm", "is_closed", "opened_at")

    def __init__(self, rules: BreakerRules) -> None:
        self._rules = rules
        self._streak = 0
        self._open_s = rules.open_s
        self._probing = False
        self.is_calm = True
        self.is_closed = True
        self.opened_at = 0.0

    def may_pass(self, now: float) -> bool:
        """Whether ``take`` would permit an attempt; takes nothing."""
        return self.is_closed or (not self._probing and now >= self.opened_at + self._open_s)

    def may_be_forced(self) -> bool:
        """Whether an open breaker could give its probe away before its time."""
        return not self._probing

    def take(self, now: float, *, is_forced: bool = False) -> Permit:
        """Permit an attempt; a probe must be given back with ``record``."""
        if self.is_closed:
            return Permit.ORDINARY
        if self._probing or not (is_forced or self.may_pass(now)):
            return Permit.REFUSED
        self._probing = True
        return Permit.PROBE

    def record(self, outcome: Outcome, now: float, *, permit: Permit) -> None:
        """Learn from an attempt that had ``permit``; neutral ones only give their probe back."""
        was_probe = permit is Permit.PROBE
        if was_probe:
            self._probing = False
        if outcome is Outcome.OK:
            self._close()
        elif outcome is Outcome.FAILED:
            self._fail(now, was_probe=was_probe)

    def opens_again_in_s(self, now: float) -> float:
        """Seconds until a probe may go; 0 when one may go now."""
        return 0.0 if self.is_closed else max(0.0, self.opened_at + self._open_s - now)

    def reluctance(self, now: float) -> float:
        """How much a half-open breaker is to be avoided: 1 when its wait is over, 0 a wait later.

        It fades because else an endpoint would never be tried again while others have room.
        """
        since_s = now - self.opened_at - self._open_s
        return min(max(1.0 - since_s / self._open_s, 0.0), 1.0)

    def _close(self) -> None:
        self._streak = 0
        self._open_s = self._rules.open_s
        self.is_calm = self.is_closed = True

    def _fail(self, now: float, *, was_probe: bool) -> None:
        self.is_calm = False
        if self.is_closed:
            self._streak += 1
            if self._streak >= self._rules.failure_threshold:
                self.is_closed = False
                self.opened_at = now
        elif was_probe:
            # Attempts from before the opening say nothing new, so only a probe lengthens the wait.
            self._open_s = min(self._open_s * 2, self._rules.open_max_s)
            self.opened_at = now
