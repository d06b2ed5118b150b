"""Say how full a pool of endpoints is; pure.

``admission`` asks before it lets a request through.  Only what is known counts: an engine that
never let a request wait, or that tells nothing of itself, is not taken for full, since to hold
requests back from it would be to hold them back for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from llmgw.gateway.choice import Choice

_FULLEST: Final = 2.0


def of_pool(pool: Iterable[Choice]) -> float:
    """How full all of them are together, by weight; 1 is what they can take and stay well."""
    full = most = 0.0
    for one in pool:
        weight = one.weight
        most += weight
        pressure = one.standing.pressure_at(one.occupied())
        full += weight * (min(_FULLEST, pressure))
    return full / most if most else 0.0
