"""Decide whether an endpoint that failed may be tried again; pure, ``now`` is passed in.

``endpoints`` holds one breaker an endpoint; ``picking`` reads it, ``dispatch`` takes and returns
its permits.  Only outcomes that are the endpoint's fault count (``outcomes`` says which).

The workers of a host have one breaker an endpoint together: whoever changes it numbers the change
and tells the others, who follow the highest number.  Nothing is told while all goes well.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol


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


@dataclass(frozen=True, slots=True)
class BreakerState:
    """All that workers tell each other of a breaker; ``opened_at`` is absent while it is closed."""

    number: int
    streak: int
    open_s: float
    opened_at: float | None = None

    def is_later_than(self, other: BreakerState) -> bool:
        """Whether it is to be followed; of two changes at once all workers follow the same."""
        return self._rank > other._rank

    @property
    def _rank(self) -> tuple[int, float, int]:
        return (self.number, -1.0 if self.opened_at is None else self.opened_at, self.streak)


class Peers(Protocol):
    """The other workers, as far as one endpoint's breaker is concerned."""

    def latest(self, than: BreakerState) -> BreakerState | None:
        """The latest change that anybody told, where it is later than this one."""
        ...

    def tell(self, state: BreakerState) -> None:
        """A change of ours, or one that we follow: it must outlive who made it."""
        ...

    def claim_probe(self, now: float) -> bool:
        """Begin a probe, unless another worker has one under way."""
        ...

    def end_probe(self) -> None:
        """Our probe is over."""
        ...

    def is_probing(self, now: float) -> bool:
        """Whether another worker has a probe under way."""
        ...


class Breaker:
    """Closed, open for a time that doubles, then half open for one probe.

    ``is_closed`` and ``is_calm`` (closed without a recent failure, so that one more success changes
    nothing) are plain attributes because every request reads them.
    """

    __slots__ = (
        "_is_kept_out",
        "_peers",
        "_probing",
        "_rules",
        "_state",
        "is_calm",
        "is_closed",
        "opened_at",
    )

    def __init__(self, rules: BreakerRules, peers: Peers | None = None) -> None:
        """Without ``peers`` this worker is alone."""
        self._rules = rules
        self._peers = peers
        self._probing = False
        self._is_kept_out = False
        self._take_over(BreakerState(number=0, streak=0, open_s=rules.open_s))

    def look(self, now: float) -> None:
        """Hear of what other workers made of it; called now and then, not with each request."""
        if self._peers is not None:
            self._catch_up(self._peers)
            self._is_kept_out = not self.is_closed and self._peers.is_probing(now)

    def may_pass(self, now: float) -> bool:
        """Whether ``take`` would permit an attempt, as far as is known; takes nothing."""
        return self.is_closed or (
            not self._is_busy() and now >= self.opened_at + self._state.open_s
        )

    def may_be_forced(self) -> bool:
        """Whether an open breaker could give its probe away before its time."""
        return not self._is_busy()

    def take(self, now: float, *, is_forced: bool = False) -> Permit:
        """Permit an attempt; a probe must be given back with ``record``.

        One that is refused is refused until the next ``look``.
        """
        if self.is_closed:
            return Permit.ORDINARY
        if self._is_busy() or not (is_forced or self.may_pass(now)):
            return Permit.REFUSED
        if self._peers is not None and not self._peers.claim_probe(now):
            self._is_kept_out = True
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
        if was_probe and self._peers is not None:
            self._peers.end_probe()  # after the change, or another probe would begin before it

    def opens_again_in_s(self, now: float) -> float:
        """Seconds until a probe may go; 0 when one may go now."""
        return 0.0 if self.is_closed else max(0.0, self.opened_at + self._state.open_s - now)

    def reluctance(self, now: float) -> float:
        """How much a half-open breaker is to be avoided: 1 when its wait is over, 0 a wait later.

        It fades because else an endpoint would never be tried again while others have room.
        """
        open_s = self._state.open_s
        return min(max(1.0 - (now - self.opened_at - open_s) / open_s, 0.0), 1.0)

    def _is_busy(self) -> bool:
        """Whether a probe is under way, here or elsewhere."""
        return self._probing or self._is_kept_out

    def _close(self) -> None:
        if not self.is_calm:
            self._change(streak=0, open_s=self._rules.open_s, opened_at=None)

    def _fail(self, now: float, *, was_probe: bool) -> None:
        if self._peers is not None:
            self._catch_up(self._peers)
        state, rules = self._state, self._rules
        if self.is_closed:
            streak = state.streak + 1
            opened_at = now if streak >= rules.failure_threshold else None
            self._change(streak=streak, open_s=state.open_s, opened_at=opened_at)
        elif was_probe:
            # Attempts from before the opening say nothing new, so only a probe lengthens the wait.
            open_s = min(state.open_s * 2, rules.open_max_s)
            self._change(streak=state.streak, open_s=open_s, opened_at=now)

    def _change(self, *, streak: int, open_s: float, opened_at: float | None) -> None:
        if self._peers is not None:
            self._catch_up(self._peers)
        number = self._state.number + 1
        self._take_over(BreakerState(number, streak, open_s, opened_at))
        if self._peers is not None:
            self._peers.tell(self._state)

    def _catch_up(self, peers: Peers) -> None:
        latest = peers.latest(than=self._state)
        if latest is not None:
            self._take_over(latest)
            peers.tell(latest)

    def _take_over(self, state: BreakerState) -> None:
        self._state = state
        self.is_closed = state.opened_at is None
        self.opened_at = state.opened_at or 0.0
        self.is_calm = self.is_closed and not state.streak
