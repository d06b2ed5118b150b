"""Keep connections to one endpoint between requests.

``endpoints`` gives every endpoint its own pool, so one that hangs takes nothing from the others;
``dispatch`` takes connections and dials new ones; ``server`` lets old ones expire.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from llmgw.errors import Exhausted, Invalid, Unreachable
from llmgw.gateway.descriptors import Descriptors
from llmgw.gateway.outgoing import Outgoing
from llmgw.gateway.reachability import Reachability
from llmgw.gateway.upstream import Keeper, UpstreamConnection
from llmgw.kit import vanishing

_IDLE_S = 60.0
"""How long an unused connection is kept; engines keep theirs longer or are asked again."""

_MOST_DIALS = 256
"""Connections that are being opened at a time; an address that takes none holds no more of them."""


_VANISHED_AFTER_S = 60.0
"""An engine's host that does not say for so long that it is there is gone."""

_CLOSED_AFTER_S = 0.01
"""The event loop closes sockets in its next turns."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where an endpoint listens, as its URL says."""

    host: str
    port: int
    is_tls: bool
    path: bytes

    @classmethod
    def of(cls, url: str) -> Address:
        """Read ``http[s]://host[:port][/path]``; raises ``Invalid``."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError as error:
            raise Invalid(f"endpoint address {url!r}: {error}") from error
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise Invalid(f"endpoint address {url!r} is not http://host:port")
        is_tls = parts.scheme == "https"
        default = 443 if is_tls else 80
        return cls(parts.hostname, port or default, is_tls, parts.path.rstrip("/").encode())

    def __str__(self) -> str:
        return self.authority.decode()

    @property
    def authority(self) -> bytes:
        """``host:port`` as a Host field has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode()


@dataclass(frozen=True, slots=True)
class Shared:
    """What the connections to all endpoints share."""

    outgoing: Outgoing
    descriptors: Descriptors


class Pool(Keeper):
    """The idle connections of one endpoint, the last used first out."""

    def __init__(
        self,
        address: Address,
        *,
        dial_timeout_s: float,
        reachability: Reachability,
        shared: Shared,
    ) -> None:
        super().__init__(shared.outgoing)
        self._descriptors = shared.descriptors
        self._address = address
        self._reachability = reachability
        self._dial_timeout_s = dial_timeout_s
        self._idle: dict[UpstreamConnection, None] = {}
        self._open: set[UpstreamConnection] = set()
        self._dialling = asyncio.Semaphore(_MOST_DIALS)
        self._is_closed = False
        self._tls = ssl.create_default_context() if address.is_tls else None

    def take(self) -> UpstreamConnection | None:
        """A connection that was used before, or nothing; the engine may have closed it just now."""
        if not self._idle:
            return None
        connection, _ = self._idle.popitem()
        connection.is_reused = True
        return connection

    def give(self, connection: UpstreamConnection) -> None:
        """Keep a connection for the next request."""
        if self._is_closed:
            connection.close()
        else:
            connection.idle_since = None
            self._idle[connection] = None

    def forget(self, connection: UpstreamConnection) -> None:
        """A connection is gone."""
        self._idle.pop(connection, None)
        if connection in self._open:
            self._open.remove(connection)
            self._descriptors.engines -= 1

    async def dial(self) -> UpstreamConnection:
        """A fresh connection; a wait for its turn counts as dialling.

        Raises ``Unreachable``, and ``Exhausted`` where this process may open no more.
        """
        where, timeout_s = self._address, self._dial_timeout_s
        try:
            async with asyncio.timeout(timeout_s), self._dialling:
                connection = await self._connect()
        except TimeoutError as timeout:
            self._reachability.failed(f"{where} takes no connection in time")
            raise Unreachable(f"{where} took no connection in {timeout_s:g} s") from timeout
        except (OSError, UnicodeError) as error:  # the latter for a name that no network can have
            if self._descriptors.are_used_up(error):
                self._descriptors.missed()
                raise Exhausted(f"too many files are open to connect to {where}") from error
            self._reachability.failed(f"{where} cannot be reached: {error}")
            raise Unreachable(f"{where} cannot be reached: {error}") from error
        self._reachability.reached()
        return connection

    async def _connect(self) -> UpstreamConnection:
        """Try again once what is not in use was closed, if it failed for want of descriptors."""
        try:
            return await self._connect_once()
        except OSError as error:
            if not self._descriptors.are_used_up(error):
                raise
        self._descriptors.make_room()
        await asyncio.sleep(_CLOSED_AFTER_S)
        return await self._connect_once()

    async def _connect_once(self) -> UpstreamConnection:
        if not self._descriptors.may_dial():
            raise _too_many()
        connection = UpstreamConnection(self)
        self._descriptors.engines += 1
        try:
            await self._open_transport(connection)
        except BaseException:
            self._descriptors.engines -= 1
            raise
        self._open.add(connection)
        return connection

    async def _open_transport(self, connection: UpstreamConnection) -> None:
        where = self._address
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: cast("asyncio.Protocol", connection), where.host, where.port, ssl=self._tls
        )
        if self._descriptors.is_kept_back(transport):
            transport.abort()
            raise _too_many()
        if not connection.is_open():  # told before anybody could hear it; nothing may be sent now
            raise ConnectionResetError(errno.ECONNRESET, "it closed the connection at once")
        # What an engine takes slowly is a long request that waits its turn; silence is not.
        vanishing.end_idle_within(transport.get_extra_info("socket"), within_s=_VANISHED_AFTER_S)

    def expire(self, now: float) -> None:
        """Close what was unused for a minute, counted from the first look that found it so."""
        for connection in tuple(self._idle):
            if connection.idle_since is None:
                connection.idle_since = now
            elif now - connection.idle_since >= _IDLE_S:
                del self._idle[connection]
                connection.close()

    def close(self) -> None:
        """Close all idle connections, and later those that are still in use."""
        self._is_closed = True
        self.close_idle()

    def close_idle(self) -> None:
        """Close those that carry nothing now."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def __len__(self) -> int:
        """How many are idle."""
        return len(self._idle)


def _too_many() -> OSError:
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))
