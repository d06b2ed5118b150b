"""Know how many connections this process may have open, and what to do when it has them all.

``pool`` asks here when an engine cannot be dialled, ``crowding`` how many clients there may be.
That a process may open no more is nobody's fault but its operator's: no engine is blamed for it.
The last few descriptors are kept back, so that clients can still be accepted and told to come
again: the event loop would close their connections without a word.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from llmgw.kit import logs, openfiles

_log = logs.get(__name__)

_OTHERS = 64
"""Descriptors for everything but clients and engines: logs, boards, listeners, links, and some
clients that were turned away and have not left yet."""

_PROBES = 8
"""Of these, those for connections that look at engines; where these are more, they take turns."""

_KEPT_BACK = 32
_TELL_EVERY_S = 10.0

_USED_UP = frozenset({errno.EMFILE, errno.ENFILE})


class Descriptors:
    """What one process may open: one half for clients, the other for engines.

    ``engines`` counts connections to engines that are open or being opened, ``missing`` those that
    could not be opened; ``make_room`` closes what is not in use.
    """

    __slots__ = ("_now", "_tell_at", "engines", "make_room", "missing", "most")

    def __init__(self, *, now: Callable[[], float], most: int = 0) -> None:
        """Without ``most`` as many as the system lets this process open."""
        self.most = most or openfiles.most()
        self.engines = self.missing = 0
        self.make_room: Callable[[], None] = lambda: None
        self._now = now
        self._tell_at: dict[str, float] = {}

    @property
    def most_clients(self) -> int:
        """How many clients there may be."""
        return max((self.most - _OTHERS) // 2, 1)

    def may_dial(self) -> bool:
        """Whether another connection to an engine would leave the clients their half."""
        return self.engines < self.most_clients + _PROBES

    def is_kept_back(self, transport: asyncio.BaseTransport) -> bool:
        """Whether a connection just made took one of the descriptors that are kept back.

        The lowest free one is always taken, so all below it are in use, by whatever it may be.
        """
        connection: socket.socket | None = transport.get_extra_info("socket")
        return connection is not None and connection.fileno() >= self.most - _KEPT_BACK

    def are_used_up(self, error: OSError | UnicodeError) -> bool:
        """Whether a dial failed because nothing more may be opened; asking a name says it badly."""
        if isinstance(error, OSError) and error.errno in _USED_UP:
            return True
        is_unsure = isinstance(error, OSError) and (
            error.errno is None or isinstance(error, socket.gaierror)
        )
        return is_unsure and not openfiles.is_any_left()

    def missed(self) -> None:
        """A connection to an engine could not be opened for want of them."""
        self.missing += 1
        self.tell("out_of_files")

    def tell(self, event: str, **figures: int) -> None:
        """Say in the log that they do not suffice, and no more than that for a while."""
        now = self._now()
        if now >= self._tell_at.get(event, now):
            self._tell_at[event] = now + _TELL_EVERY_S
            _log.warning(event, allowed=self.most, hint=openfiles.HINT, **figures)
