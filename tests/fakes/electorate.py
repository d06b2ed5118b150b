"""Candidates of one election as processes, what they said, and a wire that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 45.0


class Candidate:
    """One process."""

    def __init__(self, name, process):
        self.name = name
        self.process = process
        self.said = []
        self.frozen = []
        self._heard = asyncio.Condition()
        self._listening = asyncio.create_task(self._listen())

    @property
    def leads(self):
        return bool(self.said) and self.said[-1]["leads"]

    async def until(self, *, leads):
        """Wait until it has said so, and when that was."""
        async with asyncio.timeout(WAIT_S), self._heard:
            await self._heard.wait_for(lambda: self.leads is leads and self.said)
        return self.said[-1]["at"]

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)
        self.frozen.append(time.monotonic())

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.frozen.append(time.monotonic())

    async def ended(self):
        async with asyncio.timeout(WAIT_S):
            await self.process.wait()
        await self._listening

    def reigns(self):
        """When it led: begin, end and term of each time, by its own word and until it stood."""
        found = []
        for word in self.said:
            if word["leads"]:
                found.append([word["at"], None, word["term"]])
            elif found and found[-1][1] is None:
                found[-1][1] = word["at"]
        now = time.monotonic()
        for reign in found:
            stood = [at for at in self.frozen if at >= reign[0]]
            reign[1] = min([now if reign[1] is None else reign[1], *stood])
        return found

    async def _listen(self):
        async for line in self.process.stdout:
            async with self._heard:
                self.said.append(json.loads(line))
                self._heard.notify_all()


@contextlib.asynccontextmanager
async def electorate(*, ttl_s, every_s):
    """What starts a candidate on a store; all are ended at the end."""
    started = []

    async def stand(name, store):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.fakes.candidate", store, str(ttl_s), str(every_s)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        started.append(Candidate(name, process))
        return started[-1]

    try:
        yield stand
    finally:
        for candidate in started:
            with contextlib.suppress(ProcessLookupError):
                candidate.process.kill()
            await candidate.ended()


def assert_one_leader_at_a_time(*candidates):
    """And each in a higher term than the one before."""
    reigns = sorted((*reign, c.name) for c in candidates for reign in c.reigns())
    assert reigns
    for (_, end, term, name), (begin, _, next_term, next_name) in pairwise(reigns):
        assert end <= begin, f"{name} and {next_name} led at the same time: {reigns}"
        assert next_term > term or (next_name == name and next_term == term), reigns


class Wire:
    """A way to a port that can be cut: nothing passes any more and nobody is told."""

    def __init__(self, port):
        self._target = port
        self._passing = asyncio.Event()
        self._passing.set()
        self._tasks = set()
        self._server = None

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self):
        self._passing.clear()

    def mend(self):
        self._passing.set()

    async def _carry(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        writers = [writer]
        try:
            await self._passing.wait()
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            writers.append(back)
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        except (OSError, asyncio.CancelledError):
            pass  # one side is gone, or the wire is taken down
        finally:
            for end in writers:
                end.transport.abort()

    async def _pump(self, reader, writer):
        while data := await reader.read(65536):
            await self._passing.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
