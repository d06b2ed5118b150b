"""How the ranks of one simulated multi-node engine find each other, as real engines do.

Rank 0 listens on the dist-init address until every other rank has joined; each other rank dials
it until it answers. The connections then stay open: when one ends, its rank is gone.
"""

from __future__ import annotations

import asyncio
import contextlib

from llmgw.errors import DeadlinePassed, EngineFailed
from llmgw.kit import binding
from llmgw.kit.addresses import Address

_RETRY_S = 0.2
_HELLO_TIMEOUT_S = 10.0


class Gathering:
    """Rank 0's side: the ranks that have joined."""

    def __init__(self, *, nnodes: int) -> None:
        """Wait for ranks 1 to ``nnodes - 1``."""
        self._wanted = set(range(1, nnodes))
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None
        self._all_here = asyncio.Event()
        self._lost: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def open(self, at: Address) -> None:
        """Listen; ``AlreadyHeld`` when somebody else does there."""
        try:
            self._server = await asyncio.start_server(self._joined, at.host or None, at.port)
        except OSError as error:
            raise binding.refusal(at, error) from error

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server else 0

    async def complete(self, *, timeout_s: float) -> None:
        """Return when every rank has joined; ``DeadlinePassed`` names those that have not."""
        try:
            await asyncio.wait_for(self._all_here.wait(), timeout_s)
        except TimeoutError as error:
            missing = ", ".join(map(str, sorted(self._wanted - self._writers.keys())))
            raise DeadlinePassed(f"no word of rank {missing} after {timeout_s:g} s") from error

    async def broken(self) -> None:
        """Return never; raise ``EngineFailed`` when a rank that had joined is gone."""
        rank = await asyncio.shield(self._lost)
        raise EngineFailed(f"rank {rank} is gone")

    def close(self) -> None:
        """Let go of every rank."""
        if self._server:
            self._server.close()
        for writer in self._writers.values():
            writer.close()

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rank = await _hello(reader)
        if rank not in self._wanted or rank in self._writers:
            writer.close()
            return
        self._writers[rank] = writer
        if len(self._writers) == len(self._wanted):
            self._all_here.set()
        with contextlib.suppress(OSError):
            await reader.read()
        if not self._lost.done():
            self._lost.set_result(rank)


async def follow(leader: Address, *, rank: int, timeout_s: float) -> None:
    """Join rank 0 and stay; raise when it cannot be reached in time, or when it is gone."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await _dial(leader)
            writer.write(b"rank %d\n" % rank)
            await writer.drain()
    except TimeoutError as error:
        raise DeadlinePassed(f"rank 0 at {leader} did not answer in {timeout_s:g} s") from error
    try:
        with contextlib.suppress(OSError):
            await reader.read()
        raise EngineFailed(f"rank 0 at {leader} is gone")
    finally:
        writer.close()


async def _dial(leader: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        with contextlib.suppress(OSError):
            return await asyncio.open_connection(leader.host, leader.port)
        await asyncio.sleep(_RETRY_S)


async def _hello(reader: asyncio.StreamReader) -> int | None:
    try:
        line = await asyncio.wait_for(reader.readline(), _HELLO_TIMEOUT_S)
    except (TimeoutError, ValueError, OSError):
        return None
    word, _, number = line.strip().partition(b" ")
    return int(number) if word == b"rank" and number.isdigit() else None
