"""Which endpoint has which slot of a load board: decided by one process, read by all.

The server allots for its workers, a worker alone for itself.  A slot goes to another endpoint only
when nothing is under way at the old one and every worker had time to hear that it left; so nobody
ever counts on somebody else's place.
"""

from __future__ import annotations

from collections.abc import Iterable

from llmgw.domain.traffic import EndpointTraffic
from llmgw.gateway import board_layout as at
from llmgw.gateway.board_layout import Layout


class Allotment:
    """The table of slots, for the one process that writes it."""

    def __init__(self, words: memoryview, layout: Layout, *, keep_s: float = 0.0) -> None:
        """Go on with what the table says; a slot that was left is kept for ``keep_s``."""
        self._words = words
        self._layout = layout
        self._keep_s = keep_s
        self._slots = slots(words, layout)
        held = set(self._slots.values())
        self._free = [slot for slot in reversed(range(layout.slots)) if slot not in held]
        self._left_at: dict[int, float] = {}

    def agree(self, keys: Iterable[int], *, now: float) -> list[int]:
        """Have slots for exactly these endpoints; those that found none."""
        listed = dict.fromkeys(keys)
        for key in self._slots.keys() - listed.keys() - self._left_at.keys():
            self.release(key, now=now)
        return [key for key in listed if self.hold(key, now=now) is None]

    def hold(self, key: int, *, now: float) -> int | None:
        """The endpoint's slot; nothing when all are taken."""
        self._left_at.pop(key, None)
        slot = self._slots.get(key)
        if slot is None:
            if not self._free:
                self._collect(now)
            if not self._free:
                return None
            slot = self._slots[key] = self._free.pop()
            first = self._layout.slot_at(slot)
            self._words[first + at.WORKED_AT] = self._words[first + at.LOOKED_AT] = 0
            self._words[first + at.KEY] = key
        return slot

    def release(self, key: int, *, now: float) -> None:
        """The endpoint is listed no more."""
        if key in self._slots:
            self._left_at[key] = now

    def traffic(self, key: int) -> EndpointTraffic | None:
        """What all workers know of it; absent for one that has no slot."""
        slot = self._slots.get(key)
        if slot is None:
            return None
        words, first = self._words, self._layout.slot_at(slot)
        is_ejected = words[first + at.EJECTED] == key
        return EndpointTraffic(
            inflight=sum(self._column(slot, at.INFLIGHT)),
            last_used_at=max(self._column(slot, at.USED_AT)) / 1000 or None,
            ejected_at=words[first + at.EJECTED_AT] / 1000 if is_ejected else None,
            is_stalled=is_ejected and bool(words[first + at.STALLED]),
            answered_at=max(self._column(slot, at.PROGRESSED_AT)) / 1000 or None,
        )

    def worked(self, key: int, *, worked_at: float | None, looked_at: float) -> None:
        """Its agent looked at it: when it last saw it at work, absent where never."""
        slot = self._slots.get(key)
        if slot is not None:
            first = self._layout.slot_at(slot)
            self._words[first + at.WORKED_AT] = int((worked_at or 0.0) * 1000)
            self._words[first + at.LOOKED_AT] = int(looked_at * 1000)

    def _collect(self, now: float) -> None:
        """Free what was left long enough ago and is idle."""
        for key, left_at in tuple(self._left_at.items()):
            slot = self._slots[key]
            if now - left_at >= self._keep_s and not sum(self._column(slot, at.INFLIGHT)):
                del self._left_at[key], self._slots[key]
                self._words[self._layout.slot_at(slot) + at.KEY] = 0
                self._free.append(slot)

    def _column(self, slot: int, word: int) -> memoryview:
        layout = self._layout
        first = layout.cell_at(0, slot) + word
        return self._words[first : first + layout.rows * layout.row_words : layout.row_words]


def slots(words: memoryview, layout: Layout) -> dict[int, int]:
    """Which slot each endpoint has, by its key, whoever gave it."""
    first = layout.slot_at(0) + at.KEY
    keys = words[first : layout.slot_at(layout.slots) : at.SLOT_WORDS].tolist()
    return {key: slot for slot, key in enumerate(keys) if key}
