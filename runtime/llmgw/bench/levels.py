"""What one level of concurrency showed; pure.

``driver`` collects one ``Sample`` a request, ``summarise`` makes the figures of the level, and
``slo`` judges them.  A figure without a sample is absent, never zero.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sample:
    """One request: ``error`` is empty when it was answered whole; times in seconds.

    ``ttft_s`` is the time to the first token, ``stream_s`` from there to the last one.
    """

    took_s: float
    ttft_s: float | None = None
    stream_s: float = 0.0
    tokens: int = 0
    error: str = ""

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first; absent for answers of one token."""
        return self.stream_s / (self.tokens - 1) if self.tokens > 1 else None


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles of one time, in seconds."""

    p50_s: float
    p95_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What the engine said of itself under the level: queued requests, share of its KV cache."""

    waiting: float | None = None
    kv: float | None = None


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """The figures of one level; ``errors`` counts failed requests by their reason."""

    concurrency: int
    requests: int
    wall_s: float
    tokens: int
    ttft: Spread | None
    tpot: Spread | None
    errors: Mapping[str, int] = field(default_factory=dict)
    load: EngineLoad = EngineLoad()

    @property
    def error_share(self) -> float:
        """Failed requests over all."""
        return sum(self.errors.values()) / self.requests if self.requests else 0.0

    @property
    def requests_per_s(self) -> float:
        """Requests that were answered whole, a second."""
        return (self.requests - sum(self.errors.values())) / self.wall_s

    @property
    def tokens_per_s(self) -> float:
        """Output tokens of all requests together, a second."""
        return self.tokens / self.wall_s


def summarise(
    samples: Sequence[Sample], *, concurrency: int, wall_s: float, load: EngineLoad
) -> LevelFigures:
    """The figures of one level; times of failed requests count in none of them."""
    whole = [sample for sample in samples if not sample.error]
    return LevelFigures(
        concurrency=concurrency,
        requests=len(samples),
        wall_s=wall_s,
        tokens=sum(sample.tokens for sample in samples),
        ttft=spread([s.ttft_s for s in whole if s.ttft_s is not None]),
        tpot=spread([tpot for s in whole if (tpot := s.tpot_s) is not None]),
        errors=dict(Counter(sample.error for sample in samples if sample.error)),
        load=load,
    )


def spread(times_s: Sequence[float]) -> Spread | None:
    """Percentiles by nearest rank; absent without a time."""
    if not times_s:
        return None
    ordered = sorted(times_s)

    def at(percent: int) -> float:
        return ordered[math.ceil(percent / 100 * len(ordered)) - 1]

    return Spread(p50_s=at(50), p95_s=at(95), p99_s=at(99))
