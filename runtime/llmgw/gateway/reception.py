"""Keep what all client connections of a worker share, and know which of them there are.

``server`` makes the one of its worker, tells all ``Guest``s what they must know and looks after
those that are due; ``connection`` enters itself here and leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from llmgw.config.carrying import LimitsSettings, StreamSettings
from llmgw.gateway.crowding import Crowd, Guest
from llmgw.gateway.exchange import BodyBudget
from llmgw.gateway.metering import Meter
from llmgw.gateway.outgoing import Outgoing
from llmgw.gateway.ports import Service
from llmgw.kit.clock import Clock


@dataclass(slots=True)
class Reception:
    """See the module.

    ``looked_at`` is when the time was last looked at: near enough for bounds of a second and more.
    """

    service: Service
    limits: LimitsSettings
    stream: StreamSettings
    budget: BodyBudget
    meter: Meter
    clock: Clock
    new_id: Callable[[], str]
    outgoing: Outgoing
    crowd: Crowd
    looked_at: float = 0.0
    connections: set[Guest] = field(default_factory=set)
    is_draining: bool = False
    _last_left: asyncio.Event = field(default_factory=asyncio.Event)

    def enter(self, connection: Guest, transport: asyncio.BaseTransport) -> bool:
        """A client has come; whether there is room for it."""
        has_room = self.crowd.has_room(self.connections, transport, now=self.looked_at)
        self.connections.add(connection)
        return has_room

    def leave(self, connection: Guest) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        self.crowd.leave(connection)
        if not self.connections:
            self._last_left.set()

    async def emptied(self) -> None:
        """Wait until no client is connected."""
        while self.connections:
            self._last_left.clear()
            await self._last_left.wait()
