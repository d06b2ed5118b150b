"""What whoever has workers needs of keys, limits and usage, without a word of the store.

``server`` and ``gateway_apart`` import what fits it only where keys are asked for.
"""

from __future__ import annotations

from typing import Protocol

from llmgw.serve.messages import AccessSettings
from llmgw.serve.workers import Access


class AccessLike(Access, Protocol):
    """Keys, limits and usage; ``host_access.HostAccess`` fits."""

    @property
    def settings(self) -> AccessSettings:
        """What the workers must know of it."""
        ...

    async def start(self) -> None:
        """Open the store, where it answers, and begin to bring usage there."""
        ...

    async def metrics_page(self) -> str:
        """What became of usage."""
        ...

    async def close(self) -> None:
        """Bring what is noted, and leave the store."""
        ...
