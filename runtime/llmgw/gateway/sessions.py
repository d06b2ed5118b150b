"""Find the endpoint that a session belongs to, without a table; pure.

``affinity`` makes the key, ``picking`` asks for the home.  Bounded-load rendezvous hashing: the
home is the endpoint that ranks highest for the key among those that are not loaded far above their
share, so every worker names the same one and an endpoint that comes or goes moves only its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def key_of(project: str, name: str) -> bytes:
    """The key of a session; two projects may use the same names for theirs."""
    return f"{project}\0{name}".encode()


def home(
    ranks: Sequence[int], *, loads: Sequence[float], weights: Sequence[float], load_factor: float
) -> int:
    """Index of the home.

    An endpoint qualifies up to ``load_factor`` times its share of all load, rounded up.
    """
    per_weight = load_factor * sum(loads) / sum(weights)
    return max(
        (
            index
            for index, load in enumerate(loads)
            if load <= math.ceil(per_weight * weights[index])
        ),
        key=ranks.__getitem__,
    )
