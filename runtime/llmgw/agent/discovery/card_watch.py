"""Remembers the cards from one look to the next, so that none is lost sight of."""

from __future__ import annotations

from llmgw.agent.discovery import gpus
from llmgw.agent.discovery.findings import Cards
from llmgw.domain.nodes import Gpu

_PATIENCE = 3
"""So many looks in a row may fail before the cards count as out of use: a driver can be busy."""


class CardWatch:
    """The cards as they stand, over any number of looks."""

    def __init__(self) -> None:
        """No look was taken yet."""
        self.gpus: tuple[Gpu, ...] = ()
        self._failed_looks = 0

    def take(self, seen: Cards) -> tuple[Gpu, ...] | None:
        """All cards after this look; ``None`` where it says nothing of them.

        Cards that were there and cannot be read for a while are out of use: an engine that is
        started on one would hang as the look at it does.
        """
        if seen.gpus or not self.gpus:
            self._failed_looks = 0
            self.gpus = gpus.remembered(self.gpus, seen.gpus)
            return self.gpus if seen.gpus or not seen.failures else None
        self._failed_looks += 1
        if self._failed_looks < _PATIENCE:
            return None
        why = "; ".join(seen.failures) or "the driver does not answer"
        if self._failed_looks == _PATIENCE:
            self.gpus = gpus.unreadable(self.gpus, why=why)
        return self.gpus
