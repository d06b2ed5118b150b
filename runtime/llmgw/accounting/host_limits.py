"""The limits board of a host as its server has it: slots for counters, and what was spent before.

``serve`` gives each worker a row and lets go of a dead one's; it has a slot for each counter of a
key before a worker hears of the key.  What a dead worker counted goes into the server's own row, so
that no budget ever looks less spent than it is; what the worker held stays held until its journal
was read, and then what that tells to be lost takes its place.
The board outlives the server as the workers do: the next server goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from llmgw.accounting import limit_layout
from llmgw.accounting.limit_layout import LimitLayout
from llmgw.kit import logs, mmapboard

_log = logs.get(__name__)

_BASE = 0
_RATES = (
    limit_layout.REQUESTS,
    limit_layout.REQUESTS_BEFORE,
    limit_layout.TOKENS,
    limit_layout.TOKENS_BEFORE,
)


@dataclass(frozen=True, slots=True)
class Spending:
    """What was spent below one place of the tree, in micro-units."""

    day: int = 0
    """Since the begin of this day, by UTC."""
    month: int = 0
    total: int = 0


class HostLimits:
    """See the module; only who holds the lock of the run folder may have one."""

    def __init__(self, words: memoryview, path: Path, *, rows: Iterable[int], now: float) -> None:
        """Use ``opened``."""
        self.path = path
        self._words = words
        self._layout = LimitLayout()
        self._rows = set(rows)
        self._slots = self._slots_there()
        self._held: dict[str, dict[int, int]] = {}
        for slot in self._slots.values():
            words[self._cell(_BASE, slot) + limit_layout.RESERVED] = 0
        for row in range(1, words[limit_layout.ROWS_IN_USE]):
            if row not in self._rows:
                self._fold(row, now=now)
        self._say()

    @classmethod
    def opened(cls, run_dir: Path, *, rows: Iterable[int] = (), now: float) -> Self:
        """With the ``rows`` of living workers as they are.

        Without living workers everything begins anew, for what was spent is in the store.
        Raises ``Invalid`` where the folder does not let us.
        """
        path = limit_layout.path(run_dir)
        kept = set(rows) if path.exists() else set()
        count = LimitLayout().words
        if kept:
            return cls(mmapboard.attached(path, count=count), path, rows=kept, now=now)
        words = mmapboard.created(path, count=count)
        words[limit_layout.CREATED_AT] = int(now)
        return cls(words, path, rows=(), now=now)

    def seat(self, row: int) -> None:
        """A worker is about to have this row."""
        self._rows.add(row)
        self._say()

    def leave(self, row: int, *, tag: str, now: float) -> None:
        """Its worker has ended; ``settle`` is told the tag once its journal was read."""
        held = self._fold(row, now=now)
        self._rows.discard(row)
        if held:
            self._held[tag] = held
        self._say()

    def settle(self, tag: str, lost: Mapping[str, int], *, now: float) -> None:
        """What requests that ended with the worker ``tag`` cost, by counter."""
        for counter, micros in lost.items():
            slot = self._slots.get(limit_layout.key_of(counter))
            if slot is not None:
                self._spend(slot, Spending(micros, micros, micros), now=now)
        for slot, micros in self._held.pop(tag, {}).items():
            word = self._cell(_BASE, slot) + limit_layout.RESERVED
            self._words[word] = max(self._words[word] - micros, 0)
        self._say()

    def spend(self, counter: str, micros: int, *, now: float) -> None:
        """So much was spent on other hosts, just now; of what has no slot nothing is counted."""
        slot = self._slots.get(limit_layout.key_of(counter))
        if slot is not None:
            self._spend(slot, Spending(micros, micros, micros), now=now)
            self._say()

    def slot_of(self, counter: str) -> int | None:
        """Where a counter is, if it has a slot."""
        return self._slots.get(limit_layout.key_of(counter))

    def allot(self, counter: str, spending: Spending, *, now: float) -> int | None:
        """A slot for a counter of which so much was spent before; nothing where none is left."""
        key, slot = limit_layout.key_of(counter), len(self._slots)
        if key in self._slots:
            return self._slots[key]
        if slot >= self._layout.slots:
            _log.error(
                "limits_board_full",
                slots=self._layout.slots,
                counter=counter,
                means="each worker counts it for itself",
            )
            return None
        words, cell = self._words, self._cell(_BASE, slot)
        for word in range(cell + 1, cell + limit_layout.CELL_WORDS):
            words[word] = 0
        words[cell + limit_layout.KEY] = key
        self._spend(slot, spending, now=now)
        words[self._layout.slot_at(slot)] = key
        self._slots[key] = slot
        return slot

    def _fold(self, row: int, *, now: float) -> dict[int, int]:
        """Count in the server's row what the row counted, and empty it; what it held, by slot."""
        words, held = self._words, {}
        minute = limit_layout.minute_of(now)
        for key, slot in self._slots.items():
            cell = self._cell(row, slot)
            if words[cell + limit_layout.KEY] != key:
                continue
            self._fold_spending(cell, slot, now=now)
            self._fold_rates(cell, self._cell(_BASE, slot), minute=minute)
            micros = words[cell + limit_layout.RESERVED]
            if micros:
                held[slot] = micros
                words[self._cell(_BASE, slot) + limit_layout.RESERVED] += micros
        begin, end = self._layout.row_at(row), self._layout.row_at(row + 1)
        words[begin:end] = mmapboard.in_memory(end - begin)
        return held

    def _fold_spending(self, cell: int, slot: int, *, now: float) -> None:
        words = self._words
        is_today = words[cell + limit_layout.DAY] == limit_layout.day_of(now)
        is_this_month = words[cell + limit_layout.MONTH] == limit_layout.month_of(now)
        spending = Spending(
            day=words[cell + limit_layout.DAY_SPENT] if is_today else 0,
            month=words[cell + limit_layout.MONTH_SPENT] if is_this_month else 0,
            total=words[cell + limit_layout.SPENT],
        )
        self._spend(slot, spending, now=now)

    def _fold_rates(self, cell: int, base: int, *, minute: int) -> None:
        """Rates are of this minute and the last; what is older is of no use."""
        words = self._words
        for at in (base, cell):
            age = minute - words[at + limit_layout.MINUTE]
            current, before = limit_layout.REQUESTS, limit_layout.REQUESTS_BEFORE
            for now_word, before_word in ((current, before), (current + 2, before + 2)):
                if age == 1:
                    words[at + before_word] = words[at + now_word]
                elif age:
                    words[at + before_word] = 0
                if age:
                    words[at + now_word] = 0
            words[at + limit_layout.MINUTE] = minute
        for word in _RATES:
            words[base + word] += words[cell + word]

    def _spend(self, slot: int, spending: Spending, *, now: float) -> None:
        words, cell = self._words, self._cell(_BASE, slot)
        for stamp, word, current, micros in (
            (limit_layout.DAY, limit_layout.DAY_SPENT, limit_layout.day_of(now), spending.day),
            (
                limit_layout.MONTH,
                limit_layout.MONTH_SPENT,
                limit_layout.month_of(now),
                spending.month,
            ),
        ):
            if words[cell + stamp] != current:
                words[cell + word] = 0
                words[cell + stamp] = current
            words[cell + word] += micros
        words[cell + limit_layout.SPENT] += spending.total

    def _slots_there(self) -> dict[int, int]:
        keys = (self._words[self._layout.slot_at(slot)] for slot in range(self._layout.slots))
        return {key: slot for slot, key in enumerate(keys) if key}

    def _cell(self, row: int, slot: int) -> int:
        return self._layout.cell_at(row, slot)

    def _say(self) -> None:
        words = self._words
        words[limit_layout.ROWS_IN_USE] = max(self._rows, default=0) + 1
        words[limit_layout.GENERATION] += 1
