"""What the workers of a host tell each other of one endpoint's breaker, on the load board.

``endpoints`` makes one an endpoint for its breaker; fits ``breaker.Peers``.  Each worker writes its
own cell only.  The last word of what is told is made from all others and from the endpoint's key,
so nobody takes half of it for the whole, nor what was said of an endpoint that had the slot before.
"""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.gateway import board_layout as at
from llmgw.gateway.breaker import BreakerState
from llmgw.gateway.seat import Seat
from llmgw.kit import mmapboard

_CLAIM_S = 60.0
"""A probe that is older keeps nobody out: its worker may be dead, and no server there to see it."""


class BreakerCells:
    """See the module."""

    __slots__ = ("_seat",)

    def __init__(self, seat: Seat) -> None:
        self._seat = seat

    def latest(self, than: BreakerState) -> BreakerState | None:
        """See ``breaker.Peers``."""
        if self._seat.rows == 1 or max(self._seat.column(at.BREAKER)) < than.number:
            return None
        latest = than
        for state in self._told():
            if state.is_later_than(latest):
                latest = state
        return None if latest is than else latest

    def tell(self, state: BreakerState) -> None:
        """See ``breaker.Peers``."""
        for offset, word in enumerate(_packed(state, key=self._seat.key), start=at.BREAKER):
            self._seat.put(offset, word)

    def claim_probe(self, now: float) -> bool:
        """See ``breaker.Peers``; of two that claim at once the earlier wins."""
        if self.is_probing(now):
            return False
        ours = (_stamp(now), self._seat.row)
        self._seat.put(at.PROBING_AT, ours[0])
        if any(theirs < ours for theirs in self._probing_elsewhere(now)):
            self.end_probe()
            return False
        return True

    def end_probe(self) -> None:
        """See ``breaker.Peers``."""
        self._seat.put(at.PROBING_AT, 0)

    def is_probing(self, now: float) -> bool:
        """See ``breaker.Peers``."""
        return any(self._probing_elsewhere(now))

    def _probing_elsewhere(self, now: float) -> Iterator[tuple[int, int]]:
        """When other workers began a probe, and their rows."""
        if self._seat.rows == 1:
            return
        ours, oldest = self._seat.row, _stamp(now - _CLAIM_S)
        for row, began in enumerate(self._seat.column(at.PROBING_AT)):
            if row != ours and began and began > oldest:
                yield (began, row)

    def _told(self) -> Iterator[BreakerState]:
        columns = [self._seat.column(at.BREAKER + word) for word in range(at.BREAKER_WORDS)]
        for words in zip(*columns, strict=True):
            state = _unpacked(words, key=self._seat.key)
            if state is not None:
                yield state


def _packed(state: BreakerState, *, key: int) -> tuple[int, ...]:
    opened = mmapboard.of_real(state.opened_at or 0.0)
    open_s = mmapboard.of_real(state.open_s)
    shape = state.streak << 1 | (state.opened_at is not None)
    return (state.number, opened, open_s, shape, key ^ state.number ^ opened ^ open_s ^ shape)


def _unpacked(words: tuple[int, ...], *, key: int) -> BreakerState | None:
    """Nothing where it is no whole, or not this endpoint's."""
    number, opened, open_s, shape, check = words
    if check != key ^ number ^ opened ^ open_s ^ shape or not number:
        return None
    return BreakerState(
        number=number,
        streak=shape >> 1,
        open_s=mmapboard.to_real(open_s),
        opened_at=mmapboard.to_real(opened) if shape & 1 else None,
    )


def _stamp(now: float) -> int:
    return max(int(now * 1000), 0) + 1
