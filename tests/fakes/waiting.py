"""Waits for what a test needs to be true, never for ever."""

from __future__ import annotations

import asyncio
import time


class Changes:
    """Whoever waits looks again when something has changed."""

    def __init__(self):
        self._event = asyncio.Event()

    def note(self):
        self._event.set()

    async def until(self, is_so, *, within_s):
        async with asyncio.timeout(within_s):
            while not is_so():
                self._event.clear()
                await self._event.wait()


async def eventually(is_so, what="what was awaited", *, within_s=20.0, look_s=0.01):
    """Wait for something that nobody tells of, looking again and again."""
    give_up_at = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < give_up_at, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(look_s)
