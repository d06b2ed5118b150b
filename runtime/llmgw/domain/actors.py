"""Who does something to the fleet, as the log of acts tells it."""

from __future__ import annotations

from dataclasses import dataclass

NOBODY = "unknown"
"""Who did not say who it is; the admin API asks for no login."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asked, by its own word, and how it came in."""

    name: str
    origin: str
    """``cli``, ``api``, ``page``, or the room that acts by itself."""
    request_id: str = ""
