"""Fetch one small page from an endpoint beside its requests, within a bound of time.

``scraping`` asks for metrics and health; connections are those of a pool of their own, so that a
probe never waits behind a request.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from llmgw.errors import Unreachable
from llmgw.gateway.framing import Framing
from llmgw.gateway.pool import Pool
from llmgw.gateway.responses import ResponseHead
from llmgw.gateway.upstream import Receiver, UpstreamConnection

_MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Page:
    """A whole answer; its body is empty where none came."""

    status: int
    body: bytes


async def fetch(pool: Pool, request: bytes, *, within_s: float) -> Page:
    """Send a whole request and return its answer; raises ``Unreachable``.

    A kept connection that had gone stale is replaced once.
    """
    try:
        async with asyncio.timeout(within_s):
            kept = pool.take()
            if kept is not None:
                page = await _ask(kept, request)
                if page is not None:
                    return page
            page = await _ask(await pool.dial(), request)
    except TimeoutError as error:
        raise Unreachable(f"no answer within {within_s:g} s") from error
    if page is None:
        raise Unreachable("the connection was closed before an answer")
    return page


async def _ask(connection: UpstreamConnection, request: bytes) -> Page | None:
    reading = _Reading(connection)
    connection.send(request, reading)
    try:
        return await reading.page
    except asyncio.CancelledError:
        connection.abort()
        raise


class _Reading(Receiver):
    """One answer as it comes in; fits ``upstream.Receiver``."""

    def __init__(self, connection: UpstreamConnection) -> None:
        self.page: asyncio.Future[Page | None] = asyncio.get_running_loop().create_future()
        self._connection = connection
        self._framing: Framing | None = None
        self._status = 0
        self._body = b""

    @property
    def wants_payload(self) -> bool:
        """See ``upstream.Receiver``."""
        return True

    def on_whole(self, head: ResponseHead, body: bytes) -> None:
        """See ``upstream.Receiver``."""
        self._end(Page(head.status, body))

    def on_head(self, head: ResponseHead) -> None:
        """See ``upstream.Receiver``."""
        self._status = head.status
        self._framing = self._connection.framing

    def on_body(self, data: bytes) -> None:
        """See ``upstream.BodyReceiver``."""
        self._take(data)
        if len(self._body) > _MOST_BYTES:
            self._connection.abort()
            self._end(None)

    def on_last(self, data: bytes) -> None:
        """See ``upstream.BodyReceiver``."""
        self._take(data)
        self._end(Page(self._status, self._body))

    def on_lost(self, reason: str) -> None:  # noqa: ARG002 - one word for all reasons
        """See ``upstream.BodyReceiver``."""
        self._end(None)

    def on_fault(self, error: Exception) -> None:
        """See ``upstream.BodyReceiver``."""
        if not self.page.done():
            self.page.set_exception(error)

    def _take(self, data: bytes) -> None:
        if self._framing is not None:
            self._body += self._framing.payload(data)

    def _end(self, page: Page | None) -> None:
        if not self.page.done():
            self.page.set_result(page)
