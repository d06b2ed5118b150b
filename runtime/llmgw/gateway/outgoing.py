"""Keep what one turn of the event loop has to send until all of its reads are done.

``connection`` and ``upstream`` are ``Sender``s of the worker's one ``Outgoing``.  A write wakes its
receiver, and where engines or clients run on the same machine, that is half of what a write costs.
Written one right after the other, a turn's tokens wake it once.
"""

from __future__ import annotations

import asyncio
from typing import Final

from llmgw.kit import logs

_log = logs.get(__name__)

_LARGE_BYTES: Final = 4096
"""So much is worth a wake-up of its own, and waits neither here nor beyond a transport's bound."""

_MOST_WAITING: Final = 32
"""The first of so many has waited long enough."""


class Outgoing:
    """Who has something to send in this turn."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[Sender] = []

    def add(self, sender: Sender) -> None:
        """It has; called once until it was sent."""
        waiting = self._waiting
        waiting.append(sender)
        if len(waiting) == 1:
            asyncio.get_running_loop().call_soon(self.flush)
        elif len(waiting) >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Send it all now."""
        waiting, self._waiting = self._waiting, []
        for sender in waiting:
            try:
                sender.send_off()
            except Exception as error:  # noqa: BLE001 - the others have to be sent
                _log.error("not_sent", exc=error)
                sender.abort()


class Sender:
    """A connection that sends at the end of a turn; what is written is sent in its order.

    A connection that is lost has to forget what is ``_unsent``.
    """

    __slots__ = ("_outgoing", "_transport", "_unsent")

    _transport: asyncio.Transport

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._unsent = b""

    def write(self, data: bytes) -> None:
        """Send it, at the latest at the end of this turn."""
        if self._unsent or len(data) > _LARGE_BYTES:
            self.send_off()
            self._transport.write(data)
        else:
            self._unsent = data
            self._outgoing.add(self)

    def send_off(self) -> None:
        """Send now what waits; its owner calls it before it closes the connection."""
        data, self._unsent = self._unsent, b""
        if data:
            self._transport.write(data)

    def abort(self) -> None:
        """End the connection without a word."""
        self._unsent = b""
        self._transport.abort()
