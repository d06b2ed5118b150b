"""Where each word of the limits board lies; pure.

Change ``VERSION`` with anything here: it is part of the board's path, and a worker that knows
another layout is replaced.
A header; a table of slots, one a counter; rows, the server's first and then one a worker, each with
a cell a slot.  A cell whose key is not that of its slot counts nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

VERSION = 1

ROWS = 65
"""The server's, and one a row of the load board."""

SLOTS = 2048
"""Counters at a time."""

HEADER_WORDS = 16
ROWS_IN_USE = 0
"""One more than the highest row that a worker has or had; the server writes the header."""
GENERATION = 1
"""Another one after each change of slots, of rows or of the server's row."""
CREATED_AT = 2
"""Second since 1970: the server's row holds what was spent before, the others what came after."""

ROW_WORDS = 16
ALIVE_AT = 0
"""Second since 1970 at which the row's worker last said that it lives."""

CELL_WORDS = 16
KEY = 0
MINUTE = 1
"""Since 1970: what the four words below are of."""
REQUESTS = 2
REQUESTS_BEFORE = 3
"""Of the minute before."""
TOKENS = 4
TOKENS_BEFORE = 5
DAY = 6
DAY_SPENT = 7
MONTH = 8
MONTH_SPENT = 9
SPENT = 10
"""Micro-units, in all."""
RESERVED = 11
"""Micro-units that requests under way may cost."""
RUNNING = 12
"""Requests under way."""


@dataclass(frozen=True, slots=True)
class LimitLayout:
    """A board of so many rows and slots."""

    rows: int = ROWS
    slots: int = SLOTS

    @property
    def words(self) -> int:
        """How many it has in all."""
        return self.row_at(self.rows)

    def slot_at(self, slot: int) -> int:
        """Where the key of a slot lies."""
        return HEADER_WORDS + slot

    def row_at(self, row: int) -> int:
        """Where a row begins."""
        return self.slot_at(self.slots) + row * (ROW_WORDS + self.slots * CELL_WORDS)

    def cell_at(self, row: int, slot: int) -> int:
        """Where the cell of a row and a counter begins."""
        return self.row_at(row) + ROW_WORDS + slot * CELL_WORDS


def path(run_dir: Path) -> Path:
    """The file of the limits board of a server."""
    return run_dir / f"board-limits-v{VERSION}" / "limits"


def key_of(counter: str) -> int:
    """A counter's name on the board; never 0."""
    digest = hashlib.blake2b(counter.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


def minute_of(now: float) -> int:
    """Minutes since 1970."""
    return int(now // 60)


def day_of(now: float) -> int:
    """Days since 1970, by UTC."""
    return int(now // 86400)


def month_of(now: float) -> int:
    """Months since year 0, by UTC."""
    moment = datetime.fromtimestamp(now, tz=UTC)
    return moment.year * 12 + moment.month - 1
