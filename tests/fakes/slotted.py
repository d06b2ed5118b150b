"""An engine that runs so many requests at a time, lets the others wait, and says so."""

from __future__ import annotations

import asyncio

from tests.fakes.looked_at import LookedAt

_PAGE = (
    b"vllm:num_requests_running %d\nvllm:num_requests_waiting %d\nvllm:request_success_total %d\n"
)


class Slotted(LookedAt):
    """First come, first served; each request takes ``takes_s``."""

    def __init__(self, *, slots, takes_s):
        super().__init__()
        self.works.set()
        self.running = self.waiting = self.done = self.most_waiting = 0
        self._takes_s = takes_s
        self._slots = asyncio.Semaphore(slots)

    async def _answer(self, line):
        if not line.startswith(b"POST"):
            self.metrics = _PAGE % (self.running, self.waiting, self.done)
            return await super()._answer(line)
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        async with self._slots:
            self.waiting -= 1
            self.running += 1
            await asyncio.sleep(self._takes_s)
            self.running -= 1
            self.done += 1
        return b'{"id":"x"}'
