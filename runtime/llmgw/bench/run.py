"""The whole measurement: level after level, until the answer is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from llmgw.bench.levels import LevelFigures
from llmgw.bench.ramp import Ramp
from llmgw.bench.slo import Slo


class Drives(Protocol):
    """What a run needs of a driver."""

    async def level(self, concurrency: int) -> LevelFigures:
        """Drive one level."""
        ...


@dataclass(frozen=True, slots=True)
class Judged:
    """A level and the promises that it broke."""

    figures: LevelFigures
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """All levels in the order in which they were driven, and the best that kept every promise."""

    levels: tuple[Judged, ...]
    best: LevelFigures | None
    is_bounded: bool
    """Whether a level broke the promises; else the endpoint may carry more than was tried."""


async def run(
    driver: Drives,
    *,
    ramp: Ramp,
    slo: Slo,
    on_begin: Callable[[int], None],
    on_level: Callable[[Judged], None],
) -> Outcome:
    """Drive levels until the ramp ends; both callbacks are told of each."""
    judged: list[Judged] = []
    while (concurrency := ramp.next()) is not None:
        on_begin(concurrency)
        figures = await driver.level(concurrency)
        one = Judged(figures, slo.broken_by(figures))
        judged.append(one)
        on_level(one)
        ramp = ramp.after(concurrency, is_good=not one.broken)
    good = [one.figures for one in judged if one.figures.concurrency == ramp.good]
    return Outcome(tuple(judged), good[-1] if good else None, ramp.bad is not None)
