"""What is used of one place's limits: by this process, which alone writes it, and by its host.

``gate`` asks and adds; ``limit_board`` says where on the board the words of a counter lie.  Own
figures are kept as attributes, since nobody else changes them.  They are written at once where
another worker has to see them; a worker alone writes at once what was spent, which must outlive it,
and the rest now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from llmgw.accounting import limit_layout as layout

_MINUTE_S: Final = 60.0

# Looked up once.
_KEY: Final = layout.KEY
_MINUTE: Final = layout.MINUTE
_REQUESTS: Final = layout.REQUESTS
_REQUESTS_BEFORE: Final = layout.REQUESTS_BEFORE
_TOKENS: Final = layout.TOKENS
_TOKENS_BEFORE: Final = layout.TOKENS_BEFORE
_DAY: Final = layout.DAY
_DAY_SPENT: Final = layout.DAY_SPENT
_MONTH: Final = layout.MONTH
_MONTH_SPENT: Final = layout.MONTH_SPENT
_SPENT: Final = layout.SPENT
_RESERVED: Final = layout.RESERVED
_RUNNING: Final = layout.RUNNING


class Moment:
    """Now, as counters need it; moved on by ``gate``."""

    __slots__ = ("before_weight", "day", "minute", "month", "now")

    def __init__(self, now: float) -> None:
        self.day = self.month = self.minute = -1
        self.before_weight = self.now = 0.0
        self.move_to(now)

    def move_to(self, now: float) -> None:
        """It is ``now``, in seconds since 1970."""
        self.now = now
        minute = int(now // _MINUTE_S)
        self.before_weight = 1.0 - (now - minute * _MINUTE_S) / _MINUTE_S
        if minute == self.minute:
            return
        self.minute = minute
        day = minute // 1440
        if day != self.day:
            self.day, self.month = day, layout.month_of(now)


class Peers(NamedTuple):
    """The cells of the others: of the server, of workers that live, of some that are silent."""

    base: int
    alive: Sequence[int]
    silent: Sequence[int]


class _Base(NamedTuple):
    """The server's cell, in the order of its words."""

    minute: int
    requests: int
    requests_before: int
    tokens: int
    tokens_before: int
    day: int
    day_spent: int
    month: int
    month_spent: int
    spent: int
    reserved: int


class Counter:
    """One counter; see the module.  Money is micro-units."""

    __slots__ = (
        "_base",
        "_cell",
        "_day",
        "_day_spent",
        "_key",
        "_minute",
        "_month",
        "_month_spent",
        "_others",
        "_peers",
        "_requests",
        "_requests_before",
        "_spent",
        "_tokens",
        "_tokens_before",
        "_words",
        "is_shared",
        "name",
        "reserved",
        "running",
    )

    def __init__(self, words: memoryview, *, name: str, cell: int, peers: Peers) -> None:
        """Go on with what the cell holds, if it is this counter's; else begin at nothing."""
        self._words = words
        self._cell = cell
        self._key = key = layout.key_of(name)
        self.name = name
        if words[cell + _KEY] != key:
            words[cell + _KEY] = 0
            for word in range(cell + 1, cell + layout.CELL_WORDS):
                words[word] = 0
            words[cell + _KEY] = key
        self._know(peers)
        # A process that begins has nothing under way, whatever an earlier one of its row had.
        words[cell + _RESERVED] = words[cell + _RUNNING] = 0
        self.reserved = self.running = 0
        self._minute = words[cell + _MINUTE]
        self._requests = words[cell + _REQUESTS]
        self._requests_before = words[cell + _REQUESTS_BEFORE]
        self._tokens = words[cell + _TOKENS]
        self._tokens_before = words[cell + _TOKENS_BEFORE]
        self._day = words[cell + _DAY]
        self._day_spent = words[cell + _DAY_SPENT]
        self._month = words[cell + _MONTH]
        self._month_spent = words[cell + _MONTH_SPENT]
        self._spent = words[cell + _SPENT]

    def meet(self, peers: Peers) -> None:
        """The others are these now, and the server's row may have changed."""
        self._know(peers)
        self.write()

    def write(self) -> None:
        """Have on the board what a worker alone keeps to itself for a while."""
        words, cell = self._words, self._cell
        words[cell + _REQUESTS_BEFORE] = self._requests_before
        words[cell + _TOKENS_BEFORE] = self._tokens_before
        words[cell + _MINUTE] = self._minute
        words[cell + _REQUESTS] = self._requests
        words[cell + _TOKENS] = self._tokens
        words[cell + _RESERVED] = self.reserved
        words[cell + _RUNNING] = self.running

    # What is used

    def requests(self, at: Moment) -> float:
        """Requests of the last minute: this one's, and a share of those of the one before."""
        base = self._base
        rate = _rate(self._minute, self._requests, self._requests_before, at)
        if base.minute >= at.minute - 1:
            rate += _rate(base.minute, base.requests, base.requests_before, at)
        return rate + self._rate_of_others(_REQUESTS, at) if self._others else rate

    def tokens(self, at: Moment) -> float:
        """Tokens of the last minute."""
        base = self._base
        rate = _rate(self._minute, self._tokens, self._tokens_before, at)
        if base.minute >= at.minute - 1:
            rate += _rate(base.minute, base.tokens, base.tokens_before, at)
        return rate + self._rate_of_others(_TOKENS, at) if self._others else rate

    def spent(self, period: str, at: Moment) -> int:
        """What was spent in the period that it is now."""
        base = self._base
        if period == "day":
            total = self._day_spent if self._day == at.day else 0
            total += base.day_spent if base.day == at.day else 0
            return total + self._spent_by_others(_DAY, at.day, _DAY_SPENT)
        if period == "month":
            total = self._month_spent if self._month == at.month else 0
            total += base.month_spent if base.month == at.month else 0
            return total + self._spent_by_others(_MONTH, at.month, _MONTH_SPENT)
        total = self._spent + base.spent
        words, key = self._words, self._key
        for cell in self._others:
            if words[cell] == key:
                total += words[cell + _SPENT]
        return total

    def held(self) -> int:
        """What requests under way may cost."""
        return self.reserved + self._base.reserved + self._of_living(_RESERVED)

    def under_way(self) -> int:
        """How many requests are under way."""
        return self.running + self._of_living(_RUNNING)

    # What this process does

    def enter(self, at: Moment, *, tokens: int, micros: int) -> None:
        """A request begins."""
        if self._minute != at.minute:
            self._roll(at.minute)
        self._requests += 1
        self._tokens += tokens
        self.reserved += micros
        self.running += 1
        if self.is_shared:
            self.write()

    def leave(self, at: Moment, *, tokens: int, micros: int) -> None:
        """It is over; ``tokens`` more than were counted, or less, and ``micros`` held no more."""
        if tokens:
            if self._minute != at.minute:
                self._roll(at.minute)
            self._tokens = max(self._tokens + tokens, 0)
        self.reserved = max(self.reserved - micros, 0)
        self.running = max(self.running - 1, 0)
        if self.is_shared:
            self.write()

    def hold(self, micros: int) -> None:
        """Hold so much more, or less."""
        self.reserved = max(self.reserved + micros, 0)
        if self.is_shared:
            self.write()

    def take_back(self, at: Moment, entered_minute: int) -> None:
        """A request that began in that minute never was; before ``leave``."""
        if self._minute != at.minute:
            self._roll(at.minute)
        if entered_minute == self._minute:
            self._requests = max(self._requests - 1, 0)
        elif entered_minute == self._minute - 1:
            self._requests_before = max(self._requests_before - 1, 0)

    def spend(self, micros: int, at: Moment) -> None:
        """So much was spent."""
        words, cell = self._words, self._cell
        if self._day != at.day:
            words[cell + _DAY_SPENT] = self._day_spent = 0
            words[cell + _DAY] = self._day = at.day
        if self._month != at.month:
            words[cell + _MONTH_SPENT] = self._month_spent = 0
            words[cell + _MONTH] = self._month = at.month
        self._day_spent += micros
        self._month_spent += micros
        self._spent += micros
        words[cell + _DAY_SPENT] = self._day_spent
        words[cell + _MONTH_SPENT] = self._month_spent
        words[cell + _SPENT] = self._spent

    def _roll(self, minute: int) -> None:
        """A minute has begun; what was, is of the one before or of none."""
        is_next = minute == self._minute + 1
        self._requests_before = self._requests if is_next else 0
        self._tokens_before = self._tokens if is_next else 0
        self._requests = self._tokens = 0
        self._minute = minute
        if self.is_shared:
            self.write()

    def _know(self, peers: Peers) -> None:
        self._peers = peers
        self._others = (*peers.alive, *peers.silent)
        self.is_shared = bool(self._others)
        words, base = self._words, peers.base
        is_theirs = words[base] == self._key
        self._base = _Base(
            *(words[base + word] if is_theirs else 0 for word in range(1, _RESERVED + 1))
        )

    def _rate_of_others(self, word: int, at: Moment) -> float:
        words, key, rate = self._words, self._key, 0.0
        for cell in self._others:
            if words[cell] == key:
                rate += _rate(words[cell + _MINUTE], words[cell + word], words[cell + word + 1], at)
        return rate

    def _spent_by_others(self, stamp: int, current: int, word: int) -> int:
        words, key, total = self._words, self._key, 0
        for cell in self._others:
            if words[cell] == key and words[cell + stamp] == current:
                total += words[cell + word]
        return total

    def _of_living(self, word: int) -> int:
        """What living workers have of it; of one that is silent it is not believed any more."""
        words, key, total = self._words, self._key, 0
        for cell in self._peers.alive:
            if words[cell] == key:
                total += words[cell + word]
        return total


def _rate(minute: int, current: int, before: int, at: Moment) -> float:
    """Of figures that were of ``minute``."""
    if minute == at.minute:
        return before * at.before_weight + current
    return current * at.before_weight if minute == at.minute - 1 else 0.0
