"""The limits board as one worker sees it: its own row, and where those of the others lie.

``gate`` asks it for a counter a place of the tree.  A worker alone has it in its own memory and
hands out the slots itself; several attach to the server's, which says with each key which slots its
counters have.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from llmgw.accounting import limit_layout
from llmgw.accounting.counters import Counter, Peers
from llmgw.accounting.limit_layout import LimitLayout
from llmgw.errors import Invalid
from llmgw.kit import filelocks, logs, mmapboard

SILENT_AFTER_S = 15
"""What a worker holds is a lease: it is believed as long as the worker says that it lives."""

_LOCK_TRIES = 50
_NOBODY = Peers(0, (), ())

_log = logs.get(__name__)


class LimitBoard:
    """Counters by name; see the module."""

    def __init__(
        self, words: memoryview, layout: LimitLayout, *, row: int, lock_path: Path | None
    ) -> None:
        """Use ``private`` or ``attached``; row 0 is the server's."""
        self._words = words
        self._layout = layout
        self._row = row
        self._is_private = lock_path is None
        self._lock_fd = -1 if lock_path is None else _opened(lock_path)
        self._generation = -1
        self._alive: tuple[int, ...] = ()
        self._silent: tuple[int, ...] = ()
        self._slots: dict[str, int] = {}
        self._counters: dict[str, Counter] = {}

    @classmethod
    def private(cls, *, slots: int = limit_layout.SLOTS) -> Self:
        """A board of this process alone."""
        layout = LimitLayout(rows=2, slots=slots)
        return cls(mmapboard.in_memory(layout.words), layout, row=1, lock_path=None)

    @classmethod
    def attached(cls, path: Path, *, row: int) -> Self:
        """The server's board, of which this worker writes ``row``; raises ``Invalid``."""
        layout = LimitLayout()
        words = mmapboard.attached(path, count=layout.words)
        return cls(words, layout, row=row, lock_path=path.with_suffix(".lock"))

    @property
    def has_others(self) -> bool:
        """Whether another worker may take from the same limits at the same time."""
        return bool(self._alive or self._silent)

    @property
    def has_news(self) -> bool:
        """Whether rows came or went since the last look."""
        return not self._is_private and self._words[limit_layout.GENERATION] != self._generation

    def learn(self, slots: dict[str, int]) -> None:
        """The server has these slots for these counters; one without a slot is absent."""
        self._slots.update(slots)

    def counter(self, name: str) -> Counter:
        """What is counted under a name; without a slot this worker counts it alone."""
        counter = self._counters.get(name)
        if counter is None:
            counter = self._counters[name] = self._made(name)
        return counter

    def look(self, now: float) -> None:
        """Say that this worker lives, and see who else does; called a few times a second."""
        words, layout = self._words, self._layout
        words[layout.row_at(self._row) + limit_layout.ALIVE_AT] = int(now)
        for counter in self._counters.values():
            counter.write()
        if self._is_private:
            return
        alive: list[int] = []
        silent: list[int] = []
        for row in range(1, min(words[limit_layout.ROWS_IN_USE], layout.rows)):
            if row != self._row:
                alive_at = words[layout.row_at(row) + limit_layout.ALIVE_AT]
                is_silent = alive_at and now - alive_at > SILENT_AFTER_S
                (silent if is_silent else alive).append(row)
        generation = words[limit_layout.GENERATION]
        who = (tuple(alive), tuple(silent))
        if generation != self._generation or who != (self._alive, self._silent):
            self._generation = generation
            self._alive, self._silent = who
            for name, counter in self._counters.items():
                if name in self._slots:
                    counter.meet(self._peers_at(self._slots[name]))

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether no other worker of the host is in here; it is never waited for long."""
        if self._lock_fd < 0:
            yield True
            return
        is_taken = any(filelocks.take(self._lock_fd) for _ in range(_LOCK_TRIES))
        try:
            yield is_taken
        finally:
            if is_taken:
                fcntl.flock(self._lock_fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the lock's file."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _made(self, name: str) -> Counter:
        slot = self._slots.get(name)
        if slot is None and self._is_private and len(self._slots) < self._layout.slots:
            slot = self._slots[name] = len(self._slots)
            self._words[self._layout.slot_at(slot)] = limit_layout.key_of(name)
        if slot is None:
            _log.warning("limit_has_no_slot", counter=name, means="each worker counts it alone")
            words = mmapboard.in_memory(2 * limit_layout.CELL_WORDS)
            return Counter(words, name=name, cell=limit_layout.CELL_WORDS, peers=_NOBODY)
        cell = self._layout.cell_at(self._row, slot)
        return Counter(self._words, name=name, cell=cell, peers=self._peers_at(slot))

    def _peers_at(self, slot: int) -> Peers:
        cell_at = self._layout.cell_at
        return Peers(
            base=cell_at(0, slot),
            alive=tuple(cell_at(row, slot) for row in self._alive),
            silent=tuple(cell_at(row, slot) for row in self._silent),
        )


def _opened(path: Path) -> int:
    try:
        return filelocks.open_file(path, mode=0o600)
    except OSError as error:
        raise Invalid(f"cannot open the lock {path}: {error.strerror}") from error
