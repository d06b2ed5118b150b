"""Whether an endpoint still makes progress; pure.

``scraping`` asks with each round.  An engine may hang in two ways: its process answers nothing at
all, or it answers and its work stands still.  A long prompt looks like the second in engines whose
counters move only at a request's end, so there it is no evidence; their agent sees the processor at
work and ends what does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

SILENT_S = 10.0
"""So long may an endpoint answer no probe and send no byte."""

STANDSTILL_S = 30.0
"""So long may an engine with work in flight move no counter and send no byte."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What was seen of one endpoint; times are monotonic seconds.

    ``heard_at`` is when it last answered a probe, or was first asked, absent before; ``sent_at``
    when it last sent bytes of an answer, ``moved_at`` when a counter of its work moved, absent
    where it has no counter that tells; ``working_since`` when its work in flight began, absent
    without any.
    """

    heard_at: float | None
    sent_at: float
    moved_at: float | None
    working_since: float | None


def hang(signs: Signs, *, now: float) -> str:
    """Why the endpoint is to be left alone, in words; empty while it is well."""
    if signs.heard_at is not None:
        silent_s = now - max(signs.heard_at, signs.sent_at)
        if silent_s >= SILENT_S:
            return f"no answer to a probe and no byte for {silent_s:.0f} s"
    if signs.moved_at is not None and signs.working_since is not None:
        still_s = now - max(signs.moved_at, signs.sent_at, signs.working_since)
        if still_s >= STANDSTILL_S:
            return f"no progress for {still_s:.0f} s with work in flight"
    return ""
