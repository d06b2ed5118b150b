"""Says whether this control plane leads.

Agents' service, reconciler and admin API each declare the port that they ask; this room fits them.
"""

from __future__ import annotations

UNCHECKED_TERM = 0
"""The term of a leader whom nobody can depose: agents do not compare it."""


class SoleLeader:
    """Leads always: without a store that is shared there is nobody to lead in its stead."""

    def is_leader(self) -> bool:
        """Always."""
        return True

    def term(self) -> int:
        """The term that is not checked."""
        return UNCHECKED_TERM
