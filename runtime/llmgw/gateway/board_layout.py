"""Where each word of the load board lies; pure.

Change ``VERSION`` with anything here: it is part of the board's path, and a worker that knows
another layout is replaced.
A header; a table of slots, one an endpoint; a table of rows, one a worker, each with a cell a slot.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

VERSION = 2

ROWS = 64
"""Workers at a time, those that leave included."""

SLOTS = 1024
"""Endpoints at a time."""

HEADER_WORDS = 8
ROWS_IN_USE = 0
"""One more than the highest row that a worker has or had; the server writes it."""

SLOT_WORDS = 24
KEY = 0
"""Which endpoint has the slot, 0 for none; the server writes it.

The words below belong to the worker that scrapes.
"""
OPEN_GENERATION = 1
PUBLISHED_GENERATION = 2
EJECTED = 3
"""The key of the endpoint while it is ejected."""
SEQUENCE = 4
"""Odd while the bulletin is being written."""
BULLETIN = 5
BULLETIN_WORDS = 9
"""Key, scraped_at, running, waiting, kv, drain, capacity, flags, check."""
EJECTED_AT = 14
STALLED = 15
"""1 where it was ejected because it answers and does nothing, 0 where it does not even answer."""

WORKED_AT = 16
"""When its agent last saw it at work; the server writes these two."""
LOOKED_AT = 17
"""When its agent last looked."""

CELL_WORDS = 12
INFLIGHT = 0
RESERVED = 1
"""Two words, for even and odd generations: generation in the upper half, count in the lower."""
USED_AT = 3
"""Times are milliseconds of the monotonic clock; 0 is never."""
PROGRESSED_AT = 4
BREAKER = 5
BREAKER_WORDS = 5
"""Number, opened_at, open_s, shape, check: what this worker last made or heard of the breaker."""
PROBING_AT = 10
"""When this worker began the probe that it has under way, and 1; 0 without any."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A board of so many rows and slots."""

    rows: int = ROWS
    slots: int = SLOTS

    @property
    def words(self) -> int:
        """How many it has in all."""
        return self.row_at(self.rows)

    @property
    def row_words(self) -> int:
        """How far a cell is from that of the next row."""
        return self.slots * CELL_WORDS

    def slot_at(self, slot: int) -> int:
        """Where a slot begins."""
        return HEADER_WORDS + slot * SLOT_WORDS

    def row_at(self, row: int) -> int:
        """Where a worker's row begins."""
        return self.slot_at(self.slots) + row * self.row_words

    def cell_at(self, row: int, slot: int) -> int:
        """Where the cell of a worker and an endpoint begins."""
        return self.row_at(row) + slot * CELL_WORDS


def path(run_dir: Path) -> Path:
    """The file of the load board of a server."""
    return run_dir / f"board-v{VERSION}" / "load"


def key_of(endpoint_id: str, url: str) -> int:
    """An endpoint's name on the board; under another address it is another process."""
    digest = hashlib.blake2b(f"{endpoint_id}\0{url}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1
