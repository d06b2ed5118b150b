"""Keep what one turn of the event loop has to send until all of its reads are done.

``connection`` and ``upstream`` are ``Sender``s of the worker's one ``Outgoing``.  A write wakes its
receiver, and where engines or clients run on the same machine, that is half of what a write costs:
written one right after the other, many wake it once.  Requests and begins of answers go first, and
what goes on with an answer only so much a turn: a request that comes amid a burst of tokens does
not wait for all of them.
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

_LATER_A_TURN: Final = 8
_LATER_PART_A_TURN: Final = 6
"""Of what goes on with answers so many go a turn, or this part of all where that is more.

So a request waits for a few of many tokens, and no token for many turns.
"""


class Outgoing:
    """Who has something to send in this turn."""

    __slots__ = ("_first", "_is_due", "_later")

    def __init__(self) -> None:
        self._first: list[Sender] = []
        self._later: list[Sender] = []
        self._is_due = False

    def add(self, sender: Sender) -> None:
        """It has; called once until it was sent."""
        self._first.append(sender)
        if not self._is_due:
            self._be_due()
        elif len(self._first) >= _MOST_WAITING:
            self._send_first()

    def add_later(self, sender: Sender) -> None:
        """As ``add``, but others may go before it."""
        self._later.append(sender)
        if not self._is_due:
            self._be_due()

    def flush(self) -> None:
        """The turn is over."""
        self._is_due = False
        self._send_first()
        later = self._later
        if len(later) > _LATER_A_TURN:
            most = max(_LATER_A_TURN, len(later) // _LATER_PART_A_TURN)
            self._later = later[most:]
            self._be_due()
            _send(later[:most])
        elif later:
            self._later = []
            _send(later)

    def _send_first(self) -> None:
        first, self._first = self._first, []
        _send(first)

    def _be_due(self) -> None:
        self._is_due = True
        asyncio.get_running_loop().call_soon(self.flush)


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

    def write_later(self, data: bytes) -> None:
        """Send it in one of the next turns, which are short."""
        if self._unsent or len(data) > _LARGE_BYTES:
            self.send_off()
            self._transport.write(data)
        else:
            self._unsent = data
            self._outgoing.add_later(self)

    def send_off(self) -> None:
        """Send now what waits; its owner calls it before it closes the connection."""
        data, self._unsent = self._unsent, b""
        if data:
            self._transport.write(data)

    def abort(self) -> None:
        """End the connection without a word."""
        self._unsent = b""
        self._transport.abort()


def _send(senders: list[Sender]) -> None:
    for sender in senders:
        try:
            sender.send_off()
        except Exception as error:  # noqa: BLE001 - the others have to be sent
            _log.error("not_sent", exc=error)
            sender.abort()
