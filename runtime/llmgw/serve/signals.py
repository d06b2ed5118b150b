"""The signals that ask a process to stop, as something to wait for."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Sequence
from typing import Any

STOPS = (signal.SIGTERM, signal.SIGINT)


class StopAsked:
    """Counts requests to stop: the first asks for an orderly end, the second for a quick one."""

    def __init__(self) -> None:
        """Not asked yet; ``listen`` connects it to signals."""
        self._orderly = asyncio.Event()
        self._quick = asyncio.Event()

    def listen(self, signals: Sequence[signal.Signals] = STOPS) -> None:
        """Take over ``signals`` on the running loop."""
        loop = asyncio.get_running_loop()
        for number in signals:
            loop.add_signal_handler(number, self.ask)

    def ask(self) -> None:
        """Ask once more."""
        (self._quick if self._orderly.is_set() else self._orderly).set()

    @property
    def is_asked(self) -> bool:
        """At least once."""
        return self._orderly.is_set()

    async def wait(self) -> None:
        """Until the first request."""
        await self._orderly.wait()

    async def wait_quick(self) -> None:
        """Until the second request."""
        await self._quick.wait()

    async def unless_asked(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do work until it is done or the first request; whether it is done."""
        return await _until(self._orderly, work)

    async def unless_hurried(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do work until it is done or the second request; whether it is done."""
        return await _until(self._quick, work)


async def _until(end: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    working, ending = asyncio.ensure_future(work), asyncio.ensure_future(end.wait())
    try:
        await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
        is_done = working.done()
    finally:
        for either in (working, ending):
            either.cancel()
        await asyncio.gather(working, ending, return_exceptions=True)
    if is_done:
        working.result()
    return is_done
