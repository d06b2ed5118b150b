"""The lines of a usage journal, one when a request is sent and one when it has ended; pure.

Each line stands for itself: a sum of its bytes, then JSON. A cut or damaged one is seen as such and
the next is read as if it were not there. The second line of a request has only what the first does
not say; both bear the number under which the journal counts requests, since the id of a request is
chosen by its client.
"""

from __future__ import annotations

import zlib
from typing import Any, Final, NamedTuple

import msgspec

from llmgw.domain.pricing import Price
from llmgw.domain.usage import DispatchNote, Outcome, UsageRow

END: Final = b"\n"
_SUM_BYTES: Final = 9
_MOST: Final = 2**53
"""No count of one request is larger; a store would refuse the row, and again each time."""


class Sent(msgspec.Struct, array_like=True, tag="d", tag_field="kind", frozen=True):
    """A request goes to an engine."""

    number: int
    at: float
    request_id: str
    key_id: str
    user_id: str | None
    project_id: str
    model: str
    served_model: str
    estimate_prompt: int
    reserved_completion: int
    prompt_per_1k: int
    completion_per_1k: int
    holds: tuple[str, ...]


class Over(msgspec.Struct, array_like=True, tag="e", tag_field="kind", frozen=True):
    """It has ended."""

    number: int
    served_model: str
    endpoint: str
    node_id: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    cost_micros: int
    prompt_per_1k: int
    completion_per_1k: int
    outcome: Outcome
    is_estimated: bool
    status: int
    ttft_ms: float | None
    latency_ms: float | None


Line = Sent | Over

_encode: Final = msgspec.json.Encoder().encode
_decoder: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(Line)


class Unreadable(NamedTuple):
    """A line that says nothing any more."""

    line: bytes


def of_note(note: DispatchNote, number: int) -> bytes:
    """The first line of a request."""
    return _summed(
        Sent(
            number,
            note.at,
            note.request_id,
            note.key_id,
            note.user_id,
            note.project_id,
            note.model,
            note.served_model,
            note.estimate_prompt,
            note.reserved_completion,
            note.price.prompt_per_1k,
            note.price.completion_per_1k,
            note.holds,
        )
    )


def of_row(row: UsageRow, number: int) -> bytes:
    """The second line of a request."""
    return _summed(
        Over(
            number,
            row.served_model,
            row.endpoint,
            row.node_id,
            row.prompt_tokens,
            row.completion_tokens,
            row.cached_tokens,
            row.cost_micros,
            row.price.prompt_per_1k,
            row.price.completion_per_1k,
            row.outcome,
            row.is_estimated,
            row.status,
            row.ttft_ms,
            row.latency_ms,
        )
    )


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
    """The note that a first line was made of, with its own name among all journals."""
    return DispatchNote(
        request_id=_text(sent.request_id),
        at=sent.at,
        key_id=_text(sent.key_id),
        user_id=None if sent.user_id is None else _text(sent.user_id),
        project_id=_text(sent.project_id),
        model=_text(sent.model),
        estimate_prompt=_count(sent.estimate_prompt),
        reserved_completion=_count(sent.reserved_completion),
        price=Price(_count(sent.prompt_per_1k), _count(sent.completion_per_1k)),
        holds=sent.holds,
        served_model=_text(sent.served_model),
        entry_id=f"{journal_id}-{sent.number}",
    )


def row_of(note: DispatchNote, over: Over) -> UsageRow:
    """The row of a request that was sent and has ended."""
    return UsageRow(
        request_id=note.request_id,
        at=note.at,
        key_id=note.key_id,
        user_id=note.user_id,
        project_id=note.project_id,
        model=note.model,
        served_model=_text(over.served_model),
        endpoint=_text(over.endpoint),
        node_id=_text(over.node_id),
        prompt_tokens=_count(over.prompt_tokens),
        completion_tokens=_count(over.completion_tokens),
        cached_tokens=None if over.cached_tokens is None else _count(over.cached_tokens),
        cost_micros=_count(over.cost_micros),
        price=Price(_count(over.prompt_per_1k), _count(over.completion_per_1k)),
        outcome=over.outcome,
        is_estimated=over.is_estimated,
        status=over.status,
        ttft_ms=over.ttft_ms,
        latency_ms=over.latency_ms,
        entry_id=note.entry_id,
    )


def number_of(note: DispatchNote) -> int:
    """The number of a request in its journal."""
    return int(note.entry_id.rpartition("-")[2])


def _summed(line: Line) -> bytes:
    told = _encode(line)
    return b"%08x %b\n" % (zlib.crc32(told), told)


def _count(number: int) -> int:
    return min(max(number, 0), _MOST)


def _text(text: str) -> str:
    """PostgreSQL keeps no text with a NUL."""
    return text.replace("\x00", "") if "\x00" in text else text
