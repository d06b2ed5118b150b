"""Joins the store and the elector: whether this server leads, of all that share the store.

Imported where a store is configured, and only there: SQLAlchemy is larger than all else of a
server. A store that does not answer stops no server; one that is configured wrongly does.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import replace

from llmgw.config import store_address
from llmgw.config.settings import ServerSettings
from llmgw.control.leadership.elector import Elector, Timing
from llmgw.domain.stored import Lease
from llmgw.errors import Unavailable
from llmgw.kit import addresses, logs
from llmgw.kit.clock import WakefulClock
from llmgw.store import opening
from llmgw.store.database import Sizing
from llmgw.store.opening import Store

_log = logs.get(__name__)


class Leading:
    """The store and the candidate of one server, from ``start`` to ``close``."""

    def __init__(self, settings: ServerSettings, *, environ: Mapping[str, str]) -> None:
        """``Invalid`` or ``Denied`` where the store's address or file cannot be used."""
        auth, leader = settings.auth, settings.leader
        address = store_address.resolve(auth.store, environ=environ)
        opening.check_owner(address)
        self.store = Store(
            address,
            sizing=Sizing(connections=auth.store_connections, timeout_s=auth.store_timeout_s),
        )
        self.elector = Elector(
            _LeasesOnceOpen(self.store),
            address=leader.advertise or reachable(settings.admin_listen),
            timing=Timing(ttl_s=leader.ttl_s, every_s=leader.every_s),
            clock=WakefulClock(),
        )

    async def start(self) -> None:
        """Open the store, bring its schema up to date, and stand for election."""
        try:
            await self.store.open(may_migrate=True)
        except Unavailable as error:
            _log.warning("store_away", reason=error.message, means="a standby until it answers")
        await self.elector.start()

    async def close(self) -> None:
        """Let the next one lead at once, and leave the store."""
        await self.elector.close()
        await self.store.close()


class _LeasesOnceOpen:
    """Fits ``leadership.elector.Leases``: opens the store first where that failed before."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def take(
        self, *, owner: str, address: str, ttl_s: float, above_term: int
    ) -> Lease | None:
        await self._store.open(may_migrate=True)
        return await self._store.leases.take(
            owner=owner, address=address, ttl_s=ttl_s, above_term=above_term
        )

    async def release(self, *, owner: str) -> None:
        await self._store.leases.release(owner=owner)


def reachable(admin_listen: str) -> str:
    """The admin address as another host would call it, as far as that can be known."""
    address = addresses.parse(admin_listen)
    named = replace(address, host=socket.gethostname()) if address.is_wildcard else address
    return str(named)
