"""The lines of a usage journal, one when a request is sent and one when it has ended; pure.

Each line stands for itself: a sum of its bytes, then JSON. A cut or damaged one is seen as such and
the next is read as if it were not there. Both lines of a request bear the number under which the
journal counts requests, since the id of a request is chosen by its client.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from llmgw.domain.pricing import Price
from llmgw.domain.usage_rows import DispatchNote, UsageRow

END: Final = b"\n"
_SUM_BYTES: Final = 9
_MOST: Final = 2**44
"""No count of one request is larger: a store would refuse its row, or what it makes of a sum."""


class Sent(msgspec.Struct, array_like=True, tag="sent", tag_field="kind", frozen=True):
    """A request goes to an engine."""

    number: int
    note: DispatchNote


class Over(msgspec.Struct, array_like=True, tag="over", tag_field="kind", frozen=True):
    """It has ended."""

    number: int
    row: UsageRow


Line = Sent | Over

_encode: Final = msgspec.json.Encoder().encode
_decoder: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(Line)


class Unreadable(NamedTuple):
    """A line that says nothing any more."""

    line: bytes


def of_note(note: DispatchNote, number: int) -> bytes:
    """The first line of a request."""
    try:
        told = _encode(("sent", number, note))
    except (UnicodeEncodeError, OverflowError):
        told = _encode(("sent", number, DispatchNote(*_writable(note))))
    return b"%08x %b\n" % (zlib.crc32(told), told)


def of_row(row: UsageRow, number: int) -> bytes:
    """The second line of a request."""
    try:
        told = _encode(("over", number, row))
    except (UnicodeEncodeError, OverflowError):
        told = _encode(("over", number, UsageRow(*_writable(row))))
    return b"%08x %b\n" % (zlib.crc32(told), told)


def read(line: bytes) -> Line | Unreadable:
    """What a line says, its end taken off."""
    told = line[_SUM_BYTES:]
    if line[:_SUM_BYTES] != b"%08x " % zlib.crc32(told):
        return Unreadable(line)
    try:
        read_line: Line = _decoder.decode(told)
    except msgspec.MsgspecError:
        return Unreadable(line)
    return read_line


def note_of(sent: Sent, *, journal_id: str) -> DispatchNote:
    """The note of a first line, with its own name among all journals."""
    note = sent.note
    return note._replace(
        request_id=_text(note.request_id),
        key_id=_text(note.key_id),
        model=_text(note.model),
        served_model=_text(note.served_model),
        estimate_prompt=_count(note.estimate_prompt),
        price=_price(note.price),
        entry_id=f"{journal_id}-{sent.number}",
    )


def row_of(over: Over, *, journal_id: str) -> UsageRow:
    """The row of a second line, likewise."""
    row = over.row
    return row._replace(
        request_id=_text(row.request_id),
        key_id=_text(row.key_id),
        model=_text(row.model),
        served_model=_text(row.served_model),
        endpoint=_text(row.endpoint),
        prompt_tokens=_count(row.prompt_tokens),
        completion_tokens=_count(row.completion_tokens),
        cached_tokens=None if row.cached_tokens is None else _count(row.cached_tokens),
        cost_micros=_count(row.cost_micros),
        price=_price(row.price),
        entry_id=f"{journal_id}-{over.number}",
    )


def _writable(figures: Iterable[Any]) -> list[Any]:
    """An engine may say what is absurd, and a name may be no text: it is accounted all the same."""
    return [
        _count(one)
        if type(one) is int
        else one.encode("utf-8", "replace").decode()
        if isinstance(one, str)
        else one
        for one in figures
    ]


def _price(price: Price) -> Price:
    return Price(_count(price.prompt_per_1k), _count(price.completion_per_1k))


def _count(number: int) -> int:
    return min(max(number, 0), _MOST)


def _text(text: str) -> str:
    """PostgreSQL keeps no text with a NUL."""
    return text.replace("\x00", "") if "\x00" in text else text
