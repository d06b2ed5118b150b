"""One endpoint on the load board, as one worker sees it.

``endpoints`` holds one an endpoint, ``attempt`` takes and gives back, ``scraping`` publishes.
Each worker writes its own cells only, so nobody waits for anybody: readers sum.

A request that was sent after an engine was asked for its figures is not in them yet, so it is
reserved beside them.  Reservations carry the generation that was open when they were made; figures
that were asked for when generation *g* began publish *g*, and with it all earlier reservations end
by themselves, whether or not their requests have ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llmgw.gateway import board_layout as at
from llmgw.gateway import bulletin_words
from llmgw.gateway.board_layout import Layout
from llmgw.gateway.bulletin import UNSEEN, Bulletin
from llmgw.kit import mmapboard

_HALF: Final = 32
_COUNT: Final = (1 << _HALF) - 1
_LATER: Final = 1 << (_HALF - 1)
"""A generation that is less than this ahead is a later one; they wrap."""
_READS: Final = 3

# Names of this module: one look-up less in what each request does.
_INFLIGHT: Final = at.INFLIGHT
_RESERVED: Final = at.RESERVED
_USED_AT: Final = at.USED_AT
_OPEN_GENERATION: Final = at.OPEN_GENERATION


class Seat:
    """See the module; ``inflight`` and the like are of all workers together."""

    __slots__ = (
        "_bulletin",
        "_cell",
        "_first_cell",
        "_now",
        "_others",
        "_own",
        "_read_sequence",
        "_row_words",
        "_rows",
        "_slot",
        "_words",
        "key",
        "slot",
    )

    def __init__(
        self, words: memoryview, layout: Layout, *, place: tuple[int, int], now: Callable[[], float]
    ) -> None:
        """``place`` is the worker's row and the endpoint's slot, which bears its key already."""
        row, self.slot = place
        self._words = words
        self._now = now
        self._slot = layout.slot_at(self.slot)
        self._cell = layout.cell_at(row, self.slot)
        self._first_cell = layout.cell_at(0, self.slot)
        self._row_words = layout.row_words
        self._rows = 1
        self._bulletin = UNSEEN
        self._read_sequence = -1
        # The count of its own cell, which nobody else writes: memory of its own is read faster.
        self._own = words[self._cell + _INFLIGHT]
        self._others: list[int] = []  # the cells of the other rows
        self.key = words[self._slot + at.KEY]

    def span(self, rows: int) -> None:
        """Sum over the first ``rows`` rows from now on; of one row there is nothing to sum."""
        self._rows = rows
        cells = [self._first_cell + row * self._row_words for row in range(rows)]
        self._others = [cell for cell in cells if cell != self._cell]

    @property
    def inflight(self) -> int:
        """Requests that were sent there and have not ended."""
        count = self._own
        for cell in self._others:
            count += self._words[cell + _INFLIGHT]
        return count

    @property
    def reserved(self) -> int:
        """Those of them that the last figures of the engine do not show yet."""
        words, cell = self._words, self._cell
        published = words[self._slot + at.PUBLISHED_GENERATION]
        count = _pending(words[cell + _RESERVED], published)
        count += _pending(words[cell + _RESERVED + 1], published)
        for other in self._others:
            count += _pending(words[other + _RESERVED], published)
            count += _pending(words[other + _RESERVED + 1], published)
        return count

    @property
    def bulletin(self) -> Bulletin:
        """The engine's figures as last published."""
        if self._words[self._slot + at.SEQUENCE] != self._read_sequence:
            self._read()
        return self._bulletin

    @property
    def is_ejected(self) -> bool:
        """Whether whoever scrapes found that it makes no progress."""
        return self._words[self._slot + at.EJECTED] == self.key

    def is_ejected_as(self, *, is_stalled: bool) -> bool:
        """Whether it is ejected, and for this: that it answers and does nothing, or no answer."""
        return self.is_ejected and bool(self._words[self._slot + at.STALLED]) is is_stalled

    @property
    def worked_at(self) -> float | None:
        """When its agent last saw it at work; absent where never."""
        return _seconds(self._words[self._slot + at.WORKED_AT])

    @property
    def looked_at(self) -> float | None:
        """When its agent last looked; absent where it has none."""
        return _seconds(self._words[self._slot + at.LOOKED_AT])

    @property
    def last_used_at(self) -> float | None:
        """When a request was last sent there, in seconds; absent where never."""
        return self._latest(at.USED_AT)

    @property
    def progressed_at(self) -> float | None:
        """When a byte of an answer last came from there; absent where never."""
        return self._latest(at.PROGRESSED_AT)

    @property
    def row(self) -> int:
        """Which cell of a column is this worker's own."""
        return (self._cell - self._first_cell) // self._row_words

    @property
    def rows(self) -> int:
        """How many cells a column has."""
        return self._rows

    def column(self, word: int) -> memoryview:
        """One word of the cells of all workers."""
        return self._column(word)

    def put(self, word: int, value: int) -> None:
        """Write a word of this worker's own cell."""
        self._words[self._cell + word] = value

    def take(self) -> int:
        """Count a request that is being sent; what it returns is to be given back."""
        words, cell = self._words, self._cell
        self._own += 1
        words[cell + _INFLIGHT] = self._own
        generation = words[self._slot + _OPEN_GENERATION]
        place = cell + _RESERVED + (generation & 1)
        held = words[place]
        words[place] = held + 1 if held >> _HALF == generation else (generation << _HALF) | 1
        words[cell + _USED_AT] = int(self._now() * 1000)
        return generation

    def give_back(self, generation: int) -> None:
        """A request has ended; its reservation too, where no later figures ended it before."""
        words, cell = self._words, self._cell
        if self._own:
            self._own -= 1
            words[cell + _INFLIGHT] = self._own
        place = cell + _RESERVED + (generation & 1)
        held = words[place]
        if held >> _HALF == generation and held & _COUNT:
            words[place] = held - 1

    def progressed(self, now: float) -> None:
        """A byte of an answer came."""
        self._words[self._cell + at.PROGRESSED_AT] = int(now * 1000)

    def open_generation(self) -> None:
        """The engine is about to be asked for its figures; for the worker that scrapes.

        Only two generations can be told apart, so after a failed scrape none is opened until
        figures came.  Requests of that time are counted twice, which errs to the safe side.
        """
        words, slot = self._words, self._slot
        if words[slot + at.OPEN_GENERATION] == words[slot + at.PUBLISHED_GENERATION]:
            words[slot + at.OPEN_GENERATION] = (words[slot + at.OPEN_GENERATION] + 1) & _COUNT

    def publish(self, bulletin: Bulletin) -> None:
        """The figures that it was asked for; for the worker that scrapes."""
        words, slot = self._words, self._slot
        packed = bulletin_words.packed(self.key, bulletin)
        writing = words[slot + at.SEQUENCE] | 1
        words[slot + at.SEQUENCE] = writing
        for offset, word in enumerate(packed, start=slot + at.BULLETIN):
            words[offset] = word
        words[slot + at.SEQUENCE] = writing + 1
        words[slot + at.PUBLISHED_GENERATION] = words[slot + at.OPEN_GENERATION]

    def eject(self, now: float, *, is_stalled: bool) -> None:
        """It is to get no requests; for the worker that scrapes."""
        words, slot = self._words, self._slot
        words[slot + at.EJECTED_AT] = int(now * 1000)
        words[slot + at.STALLED] = int(is_stalled)
        words[slot + at.EJECTED] = self.key

    def readmit(self) -> None:
        """It may get requests again; for the worker that scrapes."""
        self._words[self._slot + at.EJECTED] = 0

    def unseat(self) -> None:
        """The slot is another endpoint's now: whatever is still said here must not touch it."""
        self._words = mmapboard.in_memory(at.SLOT_WORDS + at.CELL_WORDS)
        self._slot, self._cell = 0, at.SLOT_WORDS
        self._own = 0
        self._first_cell = self._cell
        self._read_sequence = 0
        self.span(1)

    def _column(self, word: int) -> memoryview:
        """One word of the cells of all rows."""
        first = self._first_cell + word
        return self._words[first : first + self._rows * self._row_words : self._row_words]

    def _latest(self, word: int) -> float | None:
        return _seconds(
            self._words[self._cell + word] if self._rows == 1 else max(self._column(word))
        )

    def _read(self) -> None:
        """Take over what was published; while it is being written the last good copy stays."""
        words, slot = self._words, self._slot
        for _ in range(_READS):
            sequence = words[slot + at.SEQUENCE]
            packed = words[slot + at.BULLETIN : slot + at.BULLETIN + at.BULLETIN_WORDS].tolist()
            if sequence & 1 or words[slot + at.SEQUENCE] != sequence:
                continue
            if bulletin_words.is_whole(packed):
                self._read_sequence = sequence
                self._bulletin = (
                    bulletin_words.unpacked(packed) if packed[0] == self.key else UNSEEN
                )
                return


def spare(key: int, *, now: Callable[[], float]) -> Seat:
    """The seat of an endpoint that found no slot: this worker alone counts what it has there."""
    layout = Layout(rows=1, slots=1)
    words = mmapboard.in_memory(layout.words)
    words[layout.slot_at(0) + at.KEY] = key
    return Seat(words, layout, place=(0, 0), now=now)


def _seconds(stamp_ms: int) -> float | None:
    return stamp_ms / 1000 if stamp_ms else None


def _pending(word: int, published: int) -> int:
    """How many reservations a word holds that later figures have not ended."""
    is_live = ((word >> _HALF) - published) & _COUNT < _LATER
    return word & _COUNT if is_live else 0
