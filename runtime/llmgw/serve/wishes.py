"""The models that requests of one process wait for; told whenever that changes.

A worker tells its server over the link, ``llmgw up`` tells the control plane beside it.
"""

from __future__ import annotations

from collections.abc import Callable


class Wishes:
    """Fits ``gateway.ports.LoadRequests``."""

    def __init__(self, *, on_change: Callable[[], None]) -> None:
        """``on_change`` is called after each change."""
        self.models: frozenset[str] = frozenset()
        self._on_change = on_change

    def want(self, model: str) -> None:
        """See ``gateway.ports.LoadRequests``."""
        self.models |= {model}
        self._on_change()

    def withdraw(self, model: str) -> None:
        """See ``gateway.ports.LoadRequests``."""
        self.models -= {model}
        self._on_change()
