"""What is known of an engine from what it published so far: folded from reading to reading; pure.

``endpoints`` holds one ``Vitals`` an endpoint and folds each reading of ``scraping`` into it.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.gateway.metric_names import Reading

_SMOOTHING = 0.3
_FORGET_AFTER_S = 3600.0


@dataclass(frozen=True, slots=True)
class Vitals:
    """An engine at its last reading.

    ``drain`` is how many requests it ends a second, smoothed; absent before two readings, and where
    the engine counts none.  ``most_running`` is the most that it ran at a time, ``had_queue``
    whether it ever let requests wait, which proves that it runs no more.  ``moved_at`` is when a
    counter of its work last moved.
    """

    reading: Reading
    scraped_at: float
    moved_at: float
    most_running: float
    reached_at: float
    had_queue: bool = False
    drain: float | None = None


def begin(reading: Reading, *, at: float) -> Vitals:
    """From the first reading of a process; one says nothing about speed."""
    return Vitals(
        reading=reading,
        scraped_at=at,
        moved_at=at,
        most_running=reading.running,
        reached_at=at,
        had_queue=reading.waiting > 0,
    )


def fold(before: Vitals, reading: Reading, *, at: float) -> Vitals:
    """With one reading more; a counter that fell tells of another process."""
    if _has_restarted(before.reading, reading):
        return begin(reading, at=at)
    most, reached_at = before.most_running, before.reached_at
    if reading.running >= most:
        most, reached_at = reading.running, at
    elif at - reached_at >= _FORGET_AFTER_S:
        most, reached_at = (most + reading.running) / 2, at
    return Vitals(
        reading=reading,
        scraped_at=at,
        moved_at=before.moved_at if reading.progress == before.reading.progress else at,
        most_running=most,
        reached_at=reached_at,
        had_queue=before.had_queue or reading.waiting > 0,
        drain=_drain(before, reading, at=at),
    )


def _has_restarted(before: Reading, after: Reading) -> bool:
    pairs = ((before.successes, after.successes), (before.progress, after.progress))
    return any(old is not None and new is not None and new < old for old, new in pairs)


def _drain(before: Vitals, reading: Reading, *, at: float) -> float | None:
    if reading.successes is None or before.reading.successes is None or at <= before.scraped_at:
        return before.drain
    rate = (reading.successes - before.reading.successes) / (at - before.scraped_at)
    return rate if before.drain is None else _SMOOTHING * rate + (1 - _SMOOTHING) * before.drain
