"""The steps of one request on its way to an engine, as its receipt tells them; values only.

Most requests leave none: they went where they should and were answered.  ``books`` notes a step
where a decision is explained and where something did not go as it should.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

MOST_STEPS = 32
MOST_CANDIDATES = 16


class Considered(Protocol):
    """An owner in one decision: what it cost, or why it was not compared."""

    @property
    def endpoint_id(self) -> str:
        """Its name."""
        ...

    @property
    def load(self) -> float:
        """Requests there."""
        ...

    @property
    def cost(self) -> float | None:
        """What the request would have cost there; the cheapest is chosen."""
        ...

    @property
    def reason(self) -> str | None:
        """Why it has no cost."""
        ...


class Step(msgspec.Struct, frozen=True):
    """One step; ``word`` says how it ended, where it had an end."""

    at: float
    name: str
    endpoint_id: str = ""
    word: str = ""
    candidates: tuple[Considered, ...] = ()
