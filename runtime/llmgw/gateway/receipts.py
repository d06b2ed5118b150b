"""Keep of each request that ended where it went and why, for whoever sent it: no text, bounded.

``books`` hands every request in; ``local`` looks one up for ``GET /v1/requests/{id}``.  Figures lie
packed in one block of memory that is written round and round: nothing for the collector to walk,
the worker does not grow while it fills, and words are made of them only for who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from llmgw.gateway import trail
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.trail import Considered, Kept, Step
from llmgw.gateway.usage import Usage

MOST_BYTES: Final = 65536
"""A longer receipt is kept without its steps."""

LEAST_BYTES: Final = 2 * MOST_BYTES

_EXPLAINED_A_SECOND: Final = 40
"""Decisions that are explained in full; the others tell only what was chosen."""

_AHEAD_S: Final = 1.0

_BY: Final = "\n"
_LENGTH_BITS: Final = 20
_LENGTH: Final = (1 << _LENGTH_BITS) - 1


class Receipts:
    """The receipts of one worker, as many as ``capacity_bytes`` hold."""

    __slots__ = ("_at", "_block", "_epoch_at", "_explained_until", "_now", "_older", "_recent")

    def __init__(
        self, *, capacity_bytes: int, now: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._block = bytearray(b"\n" * capacity_bytes)
        self._at = 0
        # Where a receipt begins and how long it is, in one number, by the hash of its id.
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}  # those of the round before
        self._now = now
        self._epoch_at = wall() - now()
        self._explained_until = 0.0

    def may_explain(self, now: float) -> bool:
        """Whether a decision is to be explained now: only so many a second are."""
        until = max(self._explained_until, now - _AHEAD_S) + 1 / _EXPLAINED_A_SECOND
        if until > now:
            return False
        self._explained_until = until
        return True

    def keep(self, exchange: Exchange) -> None:
        """Take the receipt of a request that has ended."""
        packed = _pack(exchange)
        length = len(packed)
        begin = self._at
        end = begin + length
        if end > len(self._block):
            begin, end = 0, length
            self._older, self._recent = self._recent, {}
        self._block[begin:end] = packed
        self._recent[hash(exchange.request_id)] = begin << _LENGTH_BITS | length
        self._at = end

    def find(self, asked: str) -> bytes | None:
        """The receipt of the last request with this id, as JSON; see ``asked_for``."""
        request_id, _, owner = asked.partition(_BY)
        key = hash(request_id)
        place = self._recent.get(key)
        if place is None:
            place = self._older.get(key, -1)
            if place >> _LENGTH_BITS < self._at:
                return None  # written over, or never there
        begin = place >> _LENGTH_BITS
        kept = trail.unpack(memoryview(self._block)[begin : begin + (place & _LENGTH)])
        if kept.request_id != request_id or kept.owner != owner:
            return None
        return orjson.dumps(_receipt(kept, self._epoch_at))


def asked_for(request_id: str, exchange: Exchange) -> str:
    """What ``find`` is asked, here or at another worker, for whoever sent ``exchange``.

    Where keys are asked for, a receipt is told to its own key alone.
    """
    grant = exchange.grant
    return request_id if grant is None else f"{request_id}{_BY}{grant.principal.key_id}"


def _pack(exchange: Exchange) -> bytes:
    figures = _figures(exchange)
    try:
        packed = trail.pack(figures)
    except UnicodeEncodeError:  # some name is no text; the request must end all the same
        packed = trail.pack([_as_text(one) if isinstance(one, str) else one for one in figures])
    if len(packed) > MOST_BYTES:
        exchange.trail = None
        packed = trail.pack(_figures(exchange))
    return packed


def _figures(exchange: Exchange) -> tuple[object, ...]:
    """In the order of ``Kept``."""
    return (
        exchange.request_id,
        exchange.path,
        exchange.status,
        exchange.state,
        exchange.code,
        exchange.model_name,
        exchange.is_stream,
        exchange.attempts,
        exchange.endpoint_id,
        exchange.started_at,
        exchange.first_sent_at,
        exchange.sent_at,
        exchange.first_byte_at,
        exchange.ended_at,
        exchange.usage,
        exchange.cut,
        exchange.trail,
        "" if exchange.grant is None else exchange.grant.principal.key_id,
    )


def _as_text(name: str) -> str:
    return name.encode("unicode_escape").decode()


def _receipt(kept: Kept, epoch_at: float) -> Mapping[str, Any]:
    """What is told of a request; what never was has no key."""
    begun_at = kept.started_at
    receipt: dict[str, Any] = {
        "id": kept.request_id,
        "object": "request",
        "created": int(epoch_at + begun_at),
        "path": kept.path.decode(),
        "status": kept.status,
        "state": kept.state,
        "total_ms": _ms(begun_at, kept.ended_at),
    }
    if kept.code is not None:
        receipt["code"] = kept.code
    if kept.model_name:
        receipt |= {"model": kept.model_name, "stream": kept.is_stream}
        receipt["attempts"] = kept.attempts
    if kept.endpoint_id:
        receipt["endpoint"] = kept.endpoint_id
    if kept.first_sent_at:
        receipt["queue_ms"] = _ms(begun_at, kept.first_sent_at)
    if kept.first_byte_at:
        receipt["ttft_ms"] = _ms(kept.sent_at, kept.first_byte_at)
    if kept.usage is not None:
        receipt["usage"] = _cost(kept.usage)
    if kept.cut is not None:
        receipt["truncated"] = kept.cut
    if kept.trail is not None:
        receipt["steps"] = [_step(step, begun_at) for step in kept.trail]
    return receipt


def _cost(usage: Usage) -> Mapping[str, Any]:
    cost: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }
    if usage.cached_tokens is not None:
        cost["cached_tokens"] = usage.cached_tokens
    if usage.is_estimated:
        cost["estimated"] = True
    return cost


def _step(step: Step, begun_at: float) -> Mapping[str, Any]:
    told: dict[str, Any] = {"at_ms": _ms(begun_at, step.at), "step": step.name}
    if step.endpoint_id:
        told["endpoint"] = step.endpoint_id
    if step.word:
        told["outcome"] = step.word
    if step.candidates:
        told["candidates"] = [_candidate(one) for one in step.candidates]
    return told


def _candidate(one: Considered) -> Mapping[str, Any]:
    told: dict[str, Any] = {"endpoint": one.endpoint_id, "load": round(one.load, 3)}
    if one.cost is not None:
        told["cost"] = round(one.cost, 4)
    if one.reason is not None:
        told["reason"] = one.reason
    return told


def _ms(begin_at: float, end_at: float) -> float:
    return round((end_at - begin_at) * 1000, 3)
