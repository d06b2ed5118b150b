"""Knows the one open call of every gateway on another host.

The service opens, serves and closes them. A newer call of the same gateway ends the older one;
another gateway of the same name is kept out for as long as the first one is heard.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from llmgw.errors import AlreadyHeld, LlmgwError, Superseded, Unknown
from llmgw.kit.clock import Clock

HEARD_S = 10.0
"""A gateway that has said nothing for so long may be gone, and its name is free."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """Who calls: its name, which of its starts this is, from where, and its version."""

    name: str
    instance: str
    peer: str
    version: str = ""


class Watch:
    """One gateway's open call."""

    def __init__(self, gateway: Gateway, *, now: float) -> None:
        """Something may be due at once."""
        self.gateway = gateway
        self.heard_at = now
        self._stirred = asyncio.Event()
        self._reason: LlmgwError | None = None

    @property
    def is_open(self) -> bool:
        """Nothing has ended it yet."""
        return self._reason is None

    def stir(self) -> None:
        """Something may be due."""
        self._stirred.set()

    def end(self, reason: LlmgwError) -> None:
        """Make the call end; the gateway is told the first reason given."""
        self._reason = self._reason or reason
        self._stirred.set()

    async def due(self, *, within_s: float | None = None) -> None:
        """Return when something may be due, or the time is over; raises what ended the call."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._stirred.wait()
        self._stirred.clear()
        if self._reason is not None:
            raise self._reason


class Watches:
    """The open calls by gateway."""

    def __init__(self, *, clock: Clock) -> None:
        """Begin with none; ``clock`` says how long a gateway has been silent."""
        self._clock = clock
        self._open: dict[str, Watch] = {}

    def open(self, gateway: Gateway) -> Watch:
        """The gateway's new call; an older one ends. ``AlreadyHeld`` while another has its name."""
        older, now = self._open.get(gateway.name), self._clock.monotonic()
        if older is not None and older.is_open:
            is_same = older.gateway.instance == gateway.instance
            if not is_same and now - older.heard_at < HEARD_S:
                raise AlreadyHeld(
                    f"another gateway watches as {gateway.name} from {older.gateway.peer}: stop "
                    "one of the two, or give each its own name (this one is let in once the other "
                    f"has been silent for {HEARD_S:g} s)"
                )
            older.end(Superseded(f"gateway {gateway.name} opened a newer call"))
        watch = self._open[gateway.name] = Watch(gateway, now=now)
        return watch

    def close(self, watch: Watch) -> bool:
        """The call is over; whether it was the gateway's own, so that it has none now."""
        if self._open.get(watch.gateway.name) is not watch:
            return False
        del self._open[watch.gateway.name]
        return True

    def heard(self, name: str, *, instance: str) -> Watch:
        """The open call of the gateway that says something; ``Unknown`` where it has none."""
        watch = self._open.get(name)
        if watch is None or not watch.is_open or watch.gateway.instance != instance:
            raise Unknown(f"gateway {name} watches no routes here; it has to do so first")
        watch.heard_at = self._clock.monotonic()
        return watch

    def stir_all(self) -> None:
        """Something may be due on every call."""
        for watch in self._open.values():
            watch.stir()

    def end_all(self, reason: LlmgwError) -> None:
        """Make every call end: leadership is lost, or the process stops."""
        for watch in tuple(self._open.values()):
            watch.end(reason)
