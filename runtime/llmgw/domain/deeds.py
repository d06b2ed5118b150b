"""What became of an order that no report of a shard answers, thing by thing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that was ordered: a path, an engine, a shard; done, or refused with the reason."""

    subject: str
    is_done: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class OrderReply:
    """An agent's answer; ``order`` is its word on the wire, such as ``remove_weights``."""

    order: str
    deeds: tuple[Deed, ...]
    request_id: str = ""
    """Empty when nobody waits for it."""


@dataclass(frozen=True, slots=True)
class EngineWant:
    """An engine that a node should have, in exactly that version."""

    engine: str
    version: str
