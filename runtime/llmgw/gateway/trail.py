"""The steps of one request on its way to an engine, as its receipt tells them; values only.

Most requests leave none: they went where they should and were answered.  ``books`` notes a step
where a decision is explained and where something did not go as it should.
"""

from __future__ import annotations

import msgspec

from llmgw.gateway.usage import Usage

MOST_STEPS = 32
MOST_CANDIDATES = 16


class Considered(msgspec.Struct, frozen=True):
    """An owner in one decision: what it cost, or why it has no cost; the cheapest is chosen."""

    endpoint_id: str
    load: float
    cost: float | None = None
    reason: str | None = None


class Step(msgspec.Struct, frozen=True):
    """One step; ``word`` says how it ended, where it had an end."""

    at: float
    name: str
    endpoint_id: str = ""
    word: str = ""
    candidates: tuple[Considered, ...] = ()


class Kept(msgspec.Struct, array_like=True):
    """What is kept of an exchange, in the order in which ``receipts`` packs it."""

    request_id: str
    path: bytes
    status: int
    state: str
    code: str | None
    model_name: str
    is_stream: bool
    attempts: int
    endpoint_id: str
    started_at: float
    first_sent_at: float
    sent_at: float
    first_byte_at: float
    ended_at: float
    usage: Usage | None
    cut: str | None
    trail: list[Step] | None
    owner: str
    """The key whose request it was; empty where none is asked for."""


pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder(Kept).decode
