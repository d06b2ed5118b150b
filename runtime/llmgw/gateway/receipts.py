"""Keep of each request that ended where it went and why, for whoever sent it: no text, bounded.

``books`` hands every request in; ``local`` looks one up for ``GET /v1/requests/{id}``.  Receipts
lie as lines of JSON in one block of memory that is written round and round: nothing for the
collector to walk, and the worker does not grow while it fills.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from llmgw.gateway.exchange import Exchange
from llmgw.gateway.trail import MOST_CANDIDATES, Considered, Step
from llmgw.gateway.usage import Usage

MOST_BYTES = 65536
"""A longer receipt is kept without its steps."""

LEAST_BYTES = 2 * MOST_BYTES

_EXPLAINED_A_SECOND = 40
"""Decisions that are explained in full; the others tell only what was chosen."""

_AHEAD_S = 1.0


class Receipts:
    """The receipts of one worker, as many as ``capacity_bytes`` hold."""

    __slots__ = ("_at", "_block", "_epoch_at", "_explained_until", "_now", "_older", "_recent")

    def __init__(
        self, *, capacity_bytes: int, now: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._block = bytearray(b"\n" * capacity_bytes)
        self._at = 0
        self._recent: dict[int, int] = {}  # where a receipt begins, by the hash of its id
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
        line = _line(exchange, self._epoch_at)
        if len(line) > MOST_BYTES:
            exchange.trail = None
            line = _line(exchange, self._epoch_at)
        end = self._at + len(line)
        if end > len(self._block):
            self._at, end = 0, len(line)
            self._older, self._recent = self._recent, {}
        self._block[self._at : end] = line
        self._recent[hash(exchange.request_id)] = self._at
        self._at = end

    def find(self, request_id: str) -> bytes | None:
        """The receipt of the last request with this id, as JSON."""
        key = hash(request_id)
        begin = self._recent.get(key)
        if begin is None:
            begin = self._older.get(key, -1)
            if begin < self._at:
                return None  # written over, or never there
        line = bytes(self._block[begin : self._block.index(b"\n", begin)])
        return line if line.startswith(b'{"id":%b,' % orjson.dumps(request_id)) else None


def _line(exchange: Exchange, epoch_at: float) -> bytes:
    receipt = _receipt(exchange, epoch_at)
    try:
        return orjson.dumps(receipt) + b"\n"
    except orjson.JSONEncodeError:  # some name is no UTF-8; the request must end all the same
        return json.dumps(receipt, separators=(",", ":")).encode() + b"\n"


def _receipt(exchange: Exchange, epoch_at: float) -> Mapping[str, Any]:
    """What is told of a request; what never was has no key."""
    begun_at = exchange.started_at
    receipt: dict[str, Any] = {
        "id": exchange.request_id,
        "object": "request",
        "created": int(epoch_at + begun_at),
        "path": exchange.path.decode(),
        "status": exchange.status,
        "state": exchange.state,
        "total_ms": _ms(begun_at, exchange.ended_at),
    }
    if exchange.code is not None:
        receipt["code"] = exchange.code
    if exchange.model_name:
        receipt |= {"model": exchange.model_name, "stream": exchange.is_stream}
        receipt["attempts"] = exchange.attempts
    if exchange.endpoint_id:
        receipt["endpoint"] = exchange.endpoint_id
    if exchange.first_sent_at:
        receipt["queue_ms"] = _ms(begun_at, exchange.first_sent_at)
    if exchange.first_byte_at:
        receipt["ttft_ms"] = _ms(exchange.sent_at, exchange.first_byte_at)
    if exchange.usage is not None:
        receipt["usage"] = _cost(exchange.usage)
    if exchange.cut is not None:
        receipt["truncated"] = exchange.cut
    if exchange.trail is not None:
        receipt["steps"] = [_step(step, begun_at) for step in exchange.trail]
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
        told["candidates"] = [_candidate(one) for one in step.candidates[:MOST_CANDIDATES]]
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
