"""Whether an endpoint still makes progress; pure.

``scraping`` asks with each round.  An engine may hang in two ways: its process answers nothing at
all, or it answers and its work stands still.  A long prompt looks like the second, in some engines
for longer than in others; so the word of its agent counts, which sees processor and cards at work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

SILENT_S = 10.0
"""So long may an endpoint answer no probe and send no byte."""

STANDSTILL_S = 30.0
"""So long may an engine with work in flight move no counter, send no byte and use no processor."""

AGENT_FORGOTTEN_S = 60.0
"""An agent that has not looked for so long tells nothing any more."""


class Hang(NamedTuple):
    """Why an endpoint is to be left alone; ``is_stalled`` where it answers all the same."""

    reason: str
    is_stalled: bool


@dataclass(frozen=True, slots=True)
class Signs:
    """What was seen of one endpoint; times are monotonic seconds.

    ``heard_at`` is when it last answered a probe, or was first asked, absent before; ``sent_at``
    when it last sent bytes of an answer, ``moved_at`` when a counter of its work moved, absent
    where it has no counter that tells; ``working_since`` when its work in flight began, absent
    without any.  ``looked_at`` is when its agent last looked, ``worked_at`` when it last saw it at
    work.
    """

    heard_at: float | None
    sent_at: float
    moved_at: float | None
    working_since: float | None
    worked_at: float | None = None
    looked_at: float | None = None


def hang(signs: Signs, *, now: float) -> Hang | None:
    """Why the endpoint is to be left alone; nothing while it is well."""
    if signs.heard_at is not None:
        silent_s = now - max(signs.heard_at, signs.sent_at)
        if silent_s >= SILENT_S:
            return Hang(f"no answer to a probe and no byte for {silent_s:.0f} s", is_stalled=False)
    known_until = _known_until(signs, now)
    if known_until is not None and signs.working_since is not None:
        last_at = max(
            signs.sent_at, signs.working_since, signs.moved_at or 0.0, signs.worked_at or 0.0
        )
        if (still_s := known_until - last_at) >= STANDSTILL_S:
            return Hang(f"no progress for {still_s:.0f} s with work in flight", is_stalled=True)
    return None


def _known_until(signs: Signs, now: float) -> float | None:
    """Up to when it is known whether it worked; nothing where nobody can tell."""
    if signs.looked_at is not None and now - signs.looked_at < AGENT_FORGOTTEN_S:
        return signs.looked_at
    return None if signs.moved_at is None else now
