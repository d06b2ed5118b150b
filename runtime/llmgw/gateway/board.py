"""The load board of one worker: what all workers of a host have under way at each endpoint.

``endpoints`` asks it for a seat an endpoint.  A worker alone has it in its own memory and hands out
the slots itself; several attach to the server's, each with a row of its own, and find there which
endpoint has which slot (``serve`` writes it before it sends the table).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self

from llmgw.gateway import allotting, board_layout
from llmgw.gateway import seat as seats
from llmgw.gateway.allotting import Allotment
from llmgw.gateway.board_layout import Layout
from llmgw.gateway.seat import Seat
from llmgw.kit import logs, mmapboard

_log = logs.get(__name__)


class LoadBoard:
    """Seats by endpoint; see the module."""

    def __init__(
        self, words: memoryview, layout: Layout, *, row: int, now: Callable[[], float]
    ) -> None:
        """Use ``private`` or ``attached``."""
        self._words = words
        self._layout = layout
        self._row = row
        self._now = now
        self._rows = 1
        self._seats: dict[int, Seat] = {}
        self._slots: dict[int, int] = {}
        self._allotment: Allotment | None = None

    @classmethod
    def private(cls, *, now: Callable[[], float], slots: int = board_layout.SLOTS) -> Self:
        """A board of this worker alone."""
        layout = Layout(rows=1, slots=slots)
        words = mmapboard.in_memory(layout.words)
        board = cls(words, layout, row=0, now=now)
        board._allotment = Allotment(words, layout)
        return board

    @classmethod
    def attached(cls, path: Path, *, row: int, now: Callable[[], float]) -> Self:
        """The server's board, of which this worker writes ``row``; raises ``Invalid``."""
        layout = Layout()
        board = cls(mmapboard.attached(path, count=layout.words), layout, row=row, now=now)
        board.look()
        return board

    def seat(self, endpoint_id: str, url: str) -> Seat:
        """The endpoint's seat; one that finds no slot is counted by this worker alone."""
        key = board_layout.key_of(endpoint_id, url)
        slot = self._slot_of(key)
        if slot is None:
            _log.debug("board_has_no_slot", endpoint=endpoint_id, means="counted by worker alone")
            return seats.spare(key, now=self._now)
        before = self._seats.get(slot)
        if before is not None:
            if before.key == key:
                return before  # its requests under way are still counted
            before.unseat()
        self._clear_cell(slot)
        seat = Seat(self._words, self._layout, place=(self._row, slot), now=self._now)
        seat.span(self._rows)
        self._seats[slot] = seat
        return seat

    def leave(self, seat: Seat) -> None:
        """The endpoint is listed no more; its requests under way are counted to their end."""
        if self._allotment is not None:
            self._allotment.release(seat.key, now=self._now())

    @property
    def allotment(self) -> Allotment | None:
        """Who has which slot, where this process says so; otherwise the server knows."""
        return self._allotment

    def look(self) -> None:
        """Hear of workers and endpoints that came; called now and then, not with each request."""
        if self._allotment is None:
            self._slots = allotting.slots(self._words, self._layout)
        in_use = min(self._words[board_layout.ROWS_IN_USE], self._layout.rows)
        rows = max(in_use, self._row + 1)
        if rows != self._rows:
            self._rows = rows
            for seat in self._seats.values():
                seat.span(rows)

    def _slot_of(self, key: int) -> int | None:
        if self._allotment is not None:
            return self._allotment.hold(key, now=self._now())
        return self._slots.get(key)

    def _clear_cell(self, slot: int) -> None:
        cell = self._layout.cell_at(self._row, slot)
        for word in range(cell, cell + board_layout.CELL_WORDS):
            self._words[word] = 0
