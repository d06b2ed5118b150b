"""When the tokens of one answer are due, and who may run: arithmetic without a clock or a socket.

Called by ``generating`` with the present time handed in.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class Pace:
    """The tokens of one answer on a line of time; ``made`` only rises."""

    want: int
    next_at: float
    """When the next token is due."""

    tpot_s: float
    made: int = 0

    def advance(self, now: float) -> int:
        """Make every token that is due and say how many those were."""
        if self.made >= self.want or now < self.next_at:
            return 0
        due = self.want - self.made
        if self.tpot_s > 0:
            due = int(min(due, (now - self.next_at) / self.tpot_s + 1))
        self.made += due
        self.next_at += due * self.tpot_s
        return due

    @property
    def is_done(self) -> bool:
        """Nothing is left to make."""
        return self.made >= self.want

    @property
    def last_at(self) -> float:
        """When the last token is due."""
        return self.next_at + max(self.want - self.made - 1, 0) * self.tpot_s

    def resume(self, now: float) -> None:
        """Go on from ``now`` after a pause, without catching up."""
        self.next_at = max(self.next_at, now)


class Runner(Protocol):
    """A request as the slots and the state of the engine know it."""

    def begin(self) -> None:
        """A slot is free: run."""
        ...

    def hold(self) -> None:
        """Produce nothing until ``go_on``."""
        ...

    def go_on(self) -> None:
        """Produce again from now."""
        ...

    def catch_up(self) -> None:
        """Count what is made by now."""
        ...

    @property
    def tokens_held(self) -> int:
        """Tokens that it keeps in the KV cache."""
        ...


class Slots:
    """At most ``parallel`` requests run; the others wait in the order in which they came."""

    def __init__(self, *, parallel: int, max_waiting: int = 4096) -> None:
        """Begin with everything free."""
        self._parallel = parallel
        self._max_waiting = max_waiting
        self._running: dict[Runner, None] = {}
        self._waiting: OrderedDict[Runner, None] = OrderedDict()

    @property
    def n_waiting(self) -> int:
        """Requests in line."""
        return len(self._waiting)

    def running(self) -> tuple[Runner, ...]:
        """Those that hold a slot."""
        return tuple(self._running)

    @property
    def is_full(self) -> bool:
        """Nobody else may even wait."""
        return len(self._waiting) >= self._max_waiting

    def enter(self, runner: Runner) -> None:
        """Run at once, or wait in line."""
        if len(self._running) >= self._parallel:
            self._waiting[runner] = None
            return
        self._running[runner] = None
        runner.begin()

    def leave(self, runner: Runner) -> None:
        """Give up a slot or a place in line; the first in line begins."""
        if runner in self._waiting:
            del self._waiting[runner]
            return
        self._running.pop(runner, None)
        while self._waiting and len(self._running) < self._parallel:
            successor, _ = self._waiting.popitem(last=False)
            self._running[successor] = None
            successor.begin()
