"""The steps of one request on its way to an engine, as its receipt tells them; values only.

Most requests leave none: they went where they should and were answered.  ``books`` notes a step
where a decision is explained and where something did not go as it should.
"""

from __future__ import annotations

import msgspec

MOST_STEPS = 32
MOST_CANDIDATES = 16


class Considered(msgspec.Struct, frozen=True):
    """An owner in one decision: what it cost, or why it has no cost; the cheapest is chosen."""

    endpoint_id: str
    load: float
    cost: float | None = None
    reason: str | None = None


class Step(msgspec.Struct, frozen=True):
    """One step; ``word`` says how it ended, where it had an end."""

    at: float
    name: str
    endpoint_id: str = ""
    word: str = ""
    candidates: tuple[Considered, ...] = ()
