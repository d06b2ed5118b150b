"""Choose the endpoint for the next attempt; pure.

``dispatch`` calls ``pick`` before each send with the owners of the model as they are now, so a
round walks its candidates by their load of that moment.  Reading takes nothing: the breaker's
permit is taken afterwards.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable
from typing import Protocol, TypeVar

from llmgw.gateway.breaker import Breaker

_GOLDEN_RATIO = 0x9E3779B1
_32_BITS = 0xFFFFFFFF


class Choice(Protocol):
    """What picking needs to know of an endpoint."""

    is_ready: bool
    inflight: int
    weight: float
    priority: int
    salt: int
    breaker: Breaker


ChoiceT = TypeVar("ChoiceT", bound=Choice)


def pick(
    owners: Iterable[ChoiceT], *, tried: Collection[ChoiceT], now: float, key: bytes
) -> ChoiceT | None:
    """The least loaded owner of the highest priority that is ready, untried and not left alone.

    Load is requests in flight, this one included, over weight.  Equals are ordered by a hash of
    ``key`` and endpoint, so that every worker chooses alike without talking.
    """
    best: ChoiceT | None = None
    best_load = 0.0
    for one in owners:
        if not one.is_ready or one in tried:
            continue
        breaker = one.breaker
        if not (breaker.is_closed or breaker.may_pass(now)):
            continue
        load = (one.inflight + 1) / one.weight
        if best is not None and (load >= best_load or one.priority != best.priority):
            if one.priority < best.priority:
                continue
            if one.priority == best.priority and (load > best_load or _comes_after(one, best, key)):
                continue
        best, best_load = one, load
    return best


def pick_last_resort(owners: Iterable[ChoiceT], *, tried: Collection[ChoiceT]) -> ChoiceT | None:
    """When every ready owner is left alone: the one that failed longest ago, to be probed early."""
    ready = [one for one in owners if one.is_ready]
    if any(one.breaker.is_closed for one in ready):
        return None
    free = [one for one in ready if one not in tried and one.breaker.may_be_forced()]
    return min(free, key=lambda one: one.breaker.opened_at, default=None)


def salt(endpoint_id: str) -> int:
    """The endpoint's share in the hash that orders equals."""
    return zlib.crc32(endpoint_id.encode())


def _comes_after(one: Choice, other: Choice, key: bytes) -> bool:
    mixed = zlib.crc32(key)
    # Multiplied, because without it the order of endpoints would be the same for half of all keys.
    rank = (one.salt ^ mixed) * _GOLDEN_RATIO & _32_BITS
    return rank <= (other.salt ^ mixed) * _GOLDEN_RATIO & _32_BITS
