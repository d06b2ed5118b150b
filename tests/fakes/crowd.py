"""Many clients that ask one after the other and write down what each of them saw.

They cost little (a protocol and a parser each), so that hundreds of them leave most of a small
machine to what they test.  ``Visit`` is what one request came to; nothing is judged here.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
import json
import random
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import httptools

_ENGINE = re.compile(rb'"system_fingerprint": ?"sim-(\d+)"')
_FINISHED = re.compile(rb'"finish_reason": ?"(?:stop|length)"')
_CODE = re.compile(rb'"code": ?"?(\w+)')
_KEPT_BYTES = 2048


class Ending(enum.Enum):
    """How a request ended for its client."""

    COMPLETED = "completed"
    REFUSED = "refused"
    """A whole answer of another status than 200."""
    BROKEN = "broken"
    """It had begun, and its end was seen to be missing."""
    SHORT = "short"
    """It ended as if it were whole, and is not."""
    LOST = "lost"
    """The connection ended before any byte of an answer."""
    LEFT = "left"
    """The client went away on purpose."""
    WAITED_OUT = "waited out"
    """The client lost its patience."""


@dataclass(slots=True, eq=False)
class Visit:
    """One request as its client saw it; times are monotonic seconds."""

    is_stream: bool
    asked_at: float
    port: int = 0
    """Of the client's end of the connection."""
    opened_at: float = 0.0
    """When the client had opened the connection."""
    status: int = 0
    code: str = ""
    engine: int = 0
    """Pid of the engine that answered."""
    answered_at: float = 0.0
    ended_at: float = 0.0
    longest_silence_s: float = 0.0
    ending: Ending | None = None

    @property
    def has_failed(self) -> bool:
        """Its client got nothing, and had not gone away itself."""
        if self.ending is Ending.WAITED_OUT:
            return not self.answered_at
        return self.ending in {Ending.REFUSED, Ending.LOST, Ending.SHORT}

    @property
    def was_cut(self) -> bool:
        """It had begun and came to no end."""
        return self.ending is Ending.BROKEN or (
            self.ending is Ending.WAITED_OUT and self.answered_at > 0
        )


@dataclass(frozen=True, slots=True)
class Habits:
    """How clients behave."""

    model: str = "sim"
    tokens: tuple[int, int] = (4, 16)
    """Fewest and most tokens that they ask for."""
    prompt_bytes: int = 0
    """Prompts are at least so long; no two of them begin alike."""
    stream_share: float = 0.7
    leave_share: float = 0.1
    """Share of requests whose client goes away, if it has no answer by then."""
    leave_within_s: float = 1.0
    """The longest that such a client stays."""
    think_s: float = 0.5
    """Mean pause between two requests of one client."""
    per_connection: tuple[int, int] = (1, 12)
    """Requests after which a client opens another connection."""
    patience_s: float = 120.0


class _Connection(asyncio.Protocol):
    """One client's connection, with at most one request under way."""

    def __init__(self) -> None:
        self.is_gone = False
        self._visit: Visit | None = None
        self._ended: asyncio.Future[None] | None = None
        self._heard_at = 0.0
        self._head = self._tail = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._port = transport.get_extra_info("sockname")[1]
        self._opened_at = time.monotonic()

    async def ask(self, visit: Visit, request: bytes, *, stays_s: float) -> None:
        """Send and wait for the end, or go away after ``stays_s``."""
        self._visit = visit
        visit.port, visit.opened_at = self._port, self._opened_at
        self._ended = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._heard_at, self._head, self._tail = visit.asked_at, b"", b""
        self._transport.write(request)
        try:
            async with asyncio.timeout(stays_s):
                await self._ended
        except TimeoutError:
            self.leave()
        finally:
            self._visit = None
            visit.ended_at = time.monotonic()
            silence_s = visit.ended_at - self._heard_at
            visit.longest_silence_s = max(visit.longest_silence_s, silence_s)
            if found := _ENGINE.search(self._head):
                visit.engine = int(found[1])
            if visit.ending in {Ending.REFUSED, Ending.BROKEN}:
                found = _CODE.search(self._head + self._tail)
                visit.code = found[1].decode() if found else ""

    def leave(self) -> None:
        """Close without a word."""
        self.is_gone = True
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._visit is not None:
            now = time.monotonic()
            self._visit.longest_silence_s = max(self._visit.longest_silence_s, now - self._heard_at)
            self._heard_at = now
            self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        if self._visit is not None:
            self._end(Ending.BROKEN if self._visit.answered_at else Ending.LOST)

    def on_headers_complete(self) -> None:
        if self._visit is not None:
            self._visit.status = self._parser.get_status_code()
            self._visit.answered_at = time.monotonic()

    def on_body(self, data: bytes) -> None:
        if len(self._head) < _KEPT_BYTES:
            self._head += data
        self._tail = (self._tail + data)[-_KEPT_BYTES:]

    def on_message_complete(self) -> None:
        visit = self._visit
        if visit is None:
            return
        if not self._parser.should_keep_alive():
            self.leave()
        if visit.status != 200:
            self._end(Ending.REFUSED)
        elif visit.is_stream:
            is_whole = self._tail.endswith(b"data: [DONE]\n\n")
            self._end(Ending.COMPLETED if is_whole else Ending.SHORT)
        else:
            is_whole = _FINISHED.search(self._tail) is not None
            self._end(Ending.COMPLETED if is_whole else Ending.SHORT)

    def _end(self, ending: Ending) -> None:
        if self._visit is not None and self._visit.ending is None:
            self._visit.ending = ending
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


class Crowd:
    """``clients`` that ask until the ``async with`` ends; then what is under way is waited for."""

    def __init__(
        self,
        port: int,
        *,
        clients: int,
        habits: Habits,
        seed: int = 1,
        per_client: int | None = None,
    ) -> None:
        """With ``per_client`` each of them ends by itself after so many requests."""
        self.visits: list[Visit] = []
        self.under_way: set[Visit] = set()
        self._at = ("127.0.0.1", port)
        self._clients = clients
        self._habits = habits
        self._draw = random.Random(seed)
        self._per_client = per_client
        self._numbers = itertools.count(1)
        self._is_over = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._live()) for _ in range(self._clients)]
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        self._is_over.set()
        if kind is not None:
            for task in self._tasks:
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=kind is not None)

    async def more(self, count: int, *, within_s: float) -> None:
        """Return once so many more requests have ended."""
        goal = len(self.visits) + count
        async with asyncio.timeout(within_s):
            while len(self.visits) < goal:
                await asyncio.sleep(0.05)
                self._look()

    async def completed(self, *, within_s: float) -> None:
        """Return once every client has made all its requests."""
        async with asyncio.timeout(within_s):
            await asyncio.gather(*self._tasks)

    def _look(self) -> None:
        """A client that failed by a fault of the test must not be missed."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def _live(self) -> None:
        habits, draw = self._habits, self._draw
        connection: _Connection | None = None
        left_on_it = 0
        rounds = itertools.count() if self._per_client is None else range(self._per_client)
        for _ in rounds:
            await self._think()
            if self._is_over.is_set():
                break
            if connection is None or connection.is_gone or not left_on_it:
                if connection is not None:
                    connection.leave()
                connection = await self._connect()
                left_on_it = draw.randint(*habits.per_connection)
            left_on_it -= 1
            await self._visit(connection)
        if connection is not None:
            connection.leave()

    async def _think(self) -> None:
        if self._habits.think_s:
            pause_s = self._draw.uniform(0, 2 * self._habits.think_s)
            try:
                async with asyncio.timeout(pause_s):
                    await self._is_over.wait()
            except TimeoutError:
                return

    async def _visit(self, connection: _Connection) -> None:
        habits, draw = self._habits, self._draw
        leaves = draw.random() < habits.leave_share
        stays_s = draw.uniform(0.01, habits.leave_within_s) if leaves else habits.patience_s
        is_stream = draw.random() < habits.stream_share
        visit = Visit(is_stream=is_stream, asked_at=time.monotonic())
        self.under_way.add(visit)
        try:
            await connection.ask(visit, self._request(is_stream=is_stream), stays_s=stays_s)
        finally:
            self.under_way.discard(visit)
        if visit.ending is None:
            visit.ending = Ending.LEFT if leaves else Ending.WAITED_OUT
        self.visits.append(visit)

    def _request(self, *, is_stream: bool) -> bytes:
        """A prompt that no other request has."""
        question = f"{next(self._numbers)} is the question".ljust(self._habits.prompt_bytes, "?")
        asked = {
            "model": self._habits.model,
            "stream": is_stream,
            "max_tokens": self._draw.randint(*self._habits.tokens),
            "messages": [{"role": "user", "content": question}],
        }
        body = json.dumps(asked).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def _connect(self) -> _Connection:
        sock = socket.socket()
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._habits.patience_s):
                await loop.sock_connect(sock, self._at)
        except BaseException:
            sock.close()
            raise
        _, connection = await loop.create_connection(_Connection, sock=sock)
        return connection


def summary(visits: Sequence[Visit]) -> str:
    """How many visits ended how, and how long they heard nothing."""
    endings = [visit.ending.value for visit in visits if visit.ending is not None]
    counts = {name: endings.count(name) for name in sorted(set(endings))}
    silences = sorted(visit.longest_silence_s for visit in visits) or [0.0]
    p50, p99 = (silences[int(share * (len(silences) - 1))] for share in (0.5, 0.99))
    return (
        f"requests {len(visits)}: {counts}\n"
        f"silence: p50 {p50:.2f} s, p99 {p99:.2f} s, longest {silences[-1]:.2f} s"
    )
