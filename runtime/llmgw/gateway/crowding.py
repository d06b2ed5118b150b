"""Decide who stays when too many clients are connected: those with requests, and the newest.

``connection`` asks for each client that comes.  Where nine tenths of the places are taken, the
client that has been idle for longest leaves for it; where all are, the new one is turned away.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Collection
from typing import Protocol

from llmgw.gateway.descriptors import Descriptors

_CROWDED_FROM = 0.9
_LOOK_EVERY_S = 0.25
_MOST_KNOWN = 1024


class Guest(Protocol):
    """A client's connection, as far as its server calls it.

    Of those that are idle the one that is due first was so for longest.
    """

    due_at: float
    is_paused: bool

    @property
    def is_idle(self) -> bool:
        """Whether no request is being read or answered."""
        ...

    def leave_if_idle(self) -> None:
        """Close it then."""
        ...

    def look(self, now: float) -> None:
        """Do what is due; called a few times a second."""
        ...

    def cancel(self) -> None:
        """End whatever is under way, now."""
        ...

    def abort(self) -> None:
        """End the connection without a word."""
        ...

    def on_routes_changed(self) -> None:
        """Tell the work under way that a new table was taken over."""
        ...

    @property
    def untaken_bytes(self) -> int:
        """Bytes of answers that the client has not taken yet."""
        ...


class Crowd:
    """The places of one worker; ``turned_away`` counts who found none."""

    def __init__(self, descriptors: Descriptors) -> None:
        self._descriptors = descriptors
        self.most = descriptors.most_clients
        self._many = int(self.most * _CROWDED_FROM)
        self._longest_idle: list[tuple[float, Guest]] = []
        self._look_at = 0.0
        self.turned_away = 0

    def has_room(
        self, guests: Collection[Guest], newest: asyncio.BaseTransport, *, now: float
    ) -> bool:
        """Whether the ``newest`` may stay, which is none of ``guests`` yet."""
        count, is_kept_back = len(guests), self._descriptors.is_kept_back(newest)
        if count < self._many and not is_kept_back:
            return True
        self._let_one_leave(guests, now)
        if count < self.most and not is_kept_back:
            return True
        self.turned_away += 1
        self._descriptors.tell("clients_turned_away", clients=count, all=self.turned_away)
        return False

    def may_not_linger(self, guest: asyncio.BaseTransport) -> bool:
        """Whether who was turned away must go before it has read why."""
        return self._descriptors.is_of_last(guest)

    def _let_one_leave(self, guests: Collection[Guest], now: float) -> None:
        """The one that was idle for longest; looked for a few times a second, for many at once."""
        if not self._longest_idle and now >= self._look_at:
            self._look_at = now + _LOOK_EVERY_S
            idle = ((guest.due_at, guest) for guest in guests if guest.is_idle)
            self._longest_idle = heapq.nsmallest(_MOST_KNOWN, idle, key=lambda one: one[0])
            self._longest_idle.reverse()
        while self._longest_idle:
            due_at, guest = self._longest_idle.pop()
            if guest.is_idle and guest.due_at == due_at:
                guest.leave_if_idle()
                return
