"""How much is asked for over the day: when people begin to use a model, and for how long; pure.

Most come in the afternoon and few at night or on the last two days of a week. Popular models are
asked for oftener than others, the first one of a list the oftenest.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

DAY_S = 86_400.0
_BUSIEST_S = 15 * 3600.0
_SWING = 0.85
_WEEKEND_SHARE = 0.35
_WEEK_DAYS, _WORK_DAYS = 7, 5
_SHORTEST_S = 60.0


@dataclass(frozen=True, slots=True, order=True)
class Session:
    """Somebody uses a model for a while."""

    at_s: float
    model: str
    for_s: float


def level(at_s: float) -> float:
    """How busy a moment is: 1 is the mean of a working day."""
    day = int(at_s // DAY_S) % _WEEK_DAYS
    swing = 1.0 + _SWING * math.cos(2 * math.pi * (at_s % DAY_S - _BUSIEST_S) / DAY_S)
    return swing * (1.0 if day < _WORK_DAYS else _WEEKEND_SHARE)


def sessions(models: Sequence[str], *, a_day: float, mean_s: float, seed: int) -> Iterator[Session]:
    """All sessions in their order, without an end; ``a_day`` for each model in the mean."""
    if not models or a_day <= 0:
        return iter(())
    whole = sum(1 / (place + 1) for place in range(len(models)))
    return heapq.merge(
        *(
            _of_one(
                model, a_day=a_day * len(models) / (place + 1) / whole, mean_s=mean_s, seed=seed
            )
            for place, model in enumerate(models)
        )
    )


def _of_one(model: str, *, a_day: float, mean_s: float, seed: int) -> Iterator[Session]:
    """Begun as often as the busiest moment has it, and thinned to what the moment really has."""
    draw = random.Random(f"{seed} sessions {model}")  # noqa: S311 - nothing secret is drawn
    most = 1.0 + _SWING
    at_s = 0.0
    while True:
        at_s += draw.expovariate(a_day * most / DAY_S)
        is_taken, for_s = draw.random() * most < level(at_s), draw.expovariate(1 / mean_s)
        if is_taken:
            yield Session(at_s=at_s, model=model, for_s=_SHORTEST_S + for_s)
