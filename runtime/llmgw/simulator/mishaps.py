"""What goes wrong in a simulated fleet, and when: an endless schedule from a seed; pure.

The fleet asks for the next mishap and chooses who suffers it by the mishap's own draw, so that two
runs with one seed are alike.
"""

from __future__ import annotations

import enum
import heapq
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


class Kind(enum.StrEnum):
    """What can go wrong."""

    LOSS = "loss"
    """A node loses power: its engines end, nobody says so, and it comes back later."""
    FLAP = "flap"
    """A node's stream is cut a few times in a row; its engines go on."""
    CRASH = "crash"
    """An engine that serves is killed."""
    MASS = "mass"
    """Many nodes that stand together lose power at once."""
    DRAIN = "drain"
    """An operator drains a node, works on it, and gives it back."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How often each kind happens in the whole fleet, on average; absent is never."""

    every_s: Mapping[Kind, float] = field(default_factory=dict)
    lost_for_s: float = 90.0
    """How long a node that lost power stays away."""
    flap_times: int = 3
    cut_s: float = 8.0
    """How long each cut of a flapping node takes, and the pause after it."""
    mass_share: float = 0.2
    """Share of the nodes that lose power together."""
    drained_for_s: float = 7200.0
    """How long an operator keeps a node."""


@dataclass(frozen=True, slots=True, order=True)
class Mishap:
    """One thing that goes wrong, in seconds from the beginning; ``draw`` is uniform in [0, 1)."""

    at_s: float
    kind: Kind
    draw: float


def schedule(rates: Rates, *, seed: int) -> Iterator[Mishap]:
    """All mishaps in their order, without an end unless nothing ever goes wrong."""
    return heapq.merge(
        *(
            _of_one_kind(kind, every_s=every_s, seed=seed)
            for kind, every_s in sorted(rates.every_s.items())
        )
    )


def _of_one_kind(kind: Kind, *, every_s: float, seed: int) -> Iterator[Mishap]:
    draw = random.Random(f"{seed} {kind}")  # noqa: S311 - nothing secret is drawn
    at_s = 0.0
    while True:
        at_s += draw.expovariate(1 / every_s)
        yield Mishap(at_s=at_s, kind=kind, draw=draw.random())
