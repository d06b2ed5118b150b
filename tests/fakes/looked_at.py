"""An engine that is looked at: its page of metrics, its health and its answers are told apart."""

from __future__ import annotations

import asyncio

from tests.fakes.waiting import Changes

OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b"


class LookedAt:
    """Answers by path; a test changes it as it goes.

    ``metrics`` and ``health`` are bodies, ``None`` refuses the probe; while ``is_deaf`` a probe is
    taken and never answered.  A request for a model waits until ``works`` is set.
    """

    def __init__(self, metrics=b""):
        self.metrics = metrics
        self.health = b"ok"
        self.is_deaf = False
        self.works = asyncio.Event()
        self.probes = 0
        self.asked = 0
        self._changes = Changes()
        self._serving = set()
        self._is_closed = False

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def looked_at(self, times, *, within_s=20.0):
        """Wait for so many probes more."""
        goal = self.probes + times
        await self._until(lambda: self.probes >= goal, within_s)

    async def has_request(self, count=1, *, within_s=20.0):
        await self._until(lambda: self.asked >= count, within_s)

    async def close(self):
        self._is_closed = True  # a probe may be between its arrival and its first byte
        self._server.close()
        for task in tuple(self._serving):
            task.cancel()
        await self._until(lambda: not self._serving, 20.0)

    async def _until(self, condition, within_s):
        await self._changes.until(condition, within_s=within_s)

    async def _serve(self, reader, writer):
        if self._is_closed:
            writer.transport.abort()
            return
        self._serving.add(task := asyncio.current_task())
        try:
            while not writer.is_closing():
                body = await self._answer(await _request(reader))
                if body is None or writer.is_closing():
                    break
                writer.write(OK % (len(body), body))
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            self._serving.discard(task)
            writer.transport.abort()
            self._changes.note()

    async def _answer(self, line):
        if line.startswith(b"POST"):
            self.asked += 1
            self._changes.note()
            await self.works.wait()
            return b'{"id":"x"}'
        self.probes += 1
        self._changes.note()
        if self.is_deaf:
            await asyncio.Event().wait()
        return self.metrics if line.startswith(b"GET /metrics") else self.health


async def _request(reader):
    """The first line of the next request, whose body is read too."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.partition(b":")[2]))
    return head
