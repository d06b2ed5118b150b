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
_SETTLED_S = 2.0
"""Who came or was answered just now is about to ask."""

_MOST_LINGERING = 16
_MOST_LARGE_HEADS = 1024
"""Heads that come slowly; of all others few bytes are kept."""


class Guest(Protocol):
    """A client's connection, as far as its server calls it."""

    due_at: float
    is_paused: bool

    @property
    def holds_large_head(self) -> bool:
        """Whether the begin of a long head is kept for it."""
        ...

    @property
    def idle_since(self) -> float | None:
        """When its last request had ended, or it came; nothing while it has one."""
        ...

    def leave_if_idle(self) -> None:
        """Close it if it has no request."""
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
        self._lingering: set[Guest] = set()
        self.most_large_heads = _MOST_LARGE_HEADS
        self._with_large_heads: set[Guest] = set()
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

    def may_linger(self, guest: Guest) -> bool:
        """Whether who was turned away may stay until it has read why."""
        if len(self._lingering) >= _MOST_LINGERING:
            return False
        self._lingering.add(guest)
        return True

    def leave(self, guest: Guest) -> None:
        """It is gone."""
        self._lingering.discard(guest)
        self._with_large_heads.discard(guest)

    def may_hold_head(self, guest: Guest) -> bool:
        """Whether a head that is large and has no end yet may be kept, as so many others are."""
        heads = self._with_large_heads
        if guest not in heads and len(heads) >= self.most_large_heads:
            heads -= {one for one in heads if not one.holds_large_head}
            if len(heads) >= self.most_large_heads:
                return False
        heads.add(guest)
        return True

    def _let_one_leave(self, guests: Collection[Guest], now: float) -> None:
        """The one that was idle for longest; looked for a few times a second, for many at once."""
        if not self._longest_idle and now >= self._look_at:
            self._look_at = now + _LOOK_EVERY_S
            known = ((guest.idle_since, guest) for guest in guests)
            idle = [(at, one) for at, one in known if at is not None and now - at >= _SETTLED_S]
            self._longest_idle = heapq.nsmallest(_MOST_KNOWN, idle, key=lambda one: one[0])
            self._longest_idle.reverse()
        while self._longest_idle:
            idle_since, guest = self._longest_idle.pop()
            if guest.idle_since == idle_since:
                guest.leave_if_idle()
                return
