"""Who does something to the fleet, as the log of acts tells it."""

from __future__ import annotations

from dataclasses import dataclass

ACTOR_HEADER = "x-llmgw-actor"
"""Who asks, by its own word: whoever reaches the admin API may say anything here."""

ORIGIN_HEADER = "x-llmgw-origin"
"""How it came in."""

STANDING_HEADER = "x-llmgw-standing"
"""In answers of a control plane that does not lead: what it is."""

LEADER_HEADER = "x-llmgw-leader"
"""In the same answers: the admin address of the one that leads, where it is known."""

NOBODY = "unknown"
"""Who did not say who it is; the admin API asks for no login."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asked, by its own word, and how it came in."""

    name: str
    origin: str
    """``cli``, ``api``, ``page``, or the room that acts by itself."""
    request_id: str = ""
