"""A web server for tests that answers ranges as real ones do, and breaks off where told."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote

BLOCK_BYTES = 1 << 20


class Body(Protocol):
    """Bytes that need not all be in memory."""

    length: int

    def read(self, start: int, count: int) -> bytes: ...


@dataclass(frozen=True)
class Plain:
    """A body that is there."""

    content: bytes

    @property
    def length(self) -> int:
        return len(self.content)

    def read(self, start: int, count: int) -> bytes:
        return self.content[start : start + count]


class Generated:
    """A body of any length that costs no memory: one block again and again, numbered."""

    def __init__(self, length: int, *, seed: bytes = b"weights") -> None:
        self.length = length
        self._block = (hashlib.sha256(seed).digest() * (BLOCK_BYTES // 32))[:BLOCK_BYTES]

    def read(self, start: int, count: int) -> bytes:
        index, at = divmod(start, BLOCK_BYTES)
        block = index.to_bytes(8, "big") + self._block[8:]
        return block[at : at + min(count, BLOCK_BYTES - at, self.length - start)]

    def sha256(self) -> str:
        digest, at = hashlib.sha256(), 0
        while at < self.length:
            block = self.read(at, BLOCK_BYTES)
            digest.update(block)
            at += len(block)
        return digest.hexdigest()


@dataclass
class Request:
    method: str
    path: str
    query: str
    headers: Mapping[str, str]


@dataclass
class Reply:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Body = field(default_factory=lambda: Plain(b""))
    cut_after: int | None = None
    """So many bytes of the body are sent, then the connection is reset."""
    has_length: bool = True
    """Else the end of the connection is the end of the body."""


Handler = Callable[[Request], Reply]


@dataclass
class HttpFiles:
    """A listening server; every request is kept."""

    handler: Handler
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gate.set()

    def asked(self, part: str) -> list[Request]:
        return [one for one in self.requests if part in one.path]

    async def close(self) -> None:
        """End every connection."""
        for writer in self._writers.values():
            writer.transport.abort()
        if self._writers:
            await asyncio.wait(list(self._writers))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._writers[task] = writer
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                method, target, _ = lines[0].split()
                path, _, query = target.partition("?")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in lines[1:] if line)
                }
                request = Request(method, unquote(path), query, headers)
                self.requests.append(request)
                if not await self._answer(request, self.handler(request), writer):
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        del self._writers[task]

    async def _answer(self, request: Request, reply: Reply, writer: asyncio.StreamWriter) -> bool:
        status, start = _start(request, reply)
        length = max(0, reply.body.length - start)
        if status == 416:
            length = 0
        headers = {"Content-Length": str(length), "Accept-Ranges": "bytes", **reply.headers}
        if status in {206, 416}:
            span = "*" if status == 416 else f"{start}-{reply.body.length - 1}"
            headers["Content-Range"] = f"bytes {span}/{reply.body.length}"
        if not reply.has_length:
            del headers["Content-Length"]
            headers["Connection"] = "close"
        head = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write(("\r\n".join(head) + "\r\n\r\n").encode())
        if request.method == "HEAD":
            return reply.has_length
        sent, stop = 0, length if reply.cut_after is None else min(length, reply.cut_after)
        while sent < stop:
            block = reply.body.read(start + sent, min(BLOCK_BYTES, stop - sent))
            writer.write(block)
            sent += len(block)
            await writer.drain()
            await self.gate.wait()
        if stop < length:
            await writer.drain()
            writer.transport.abort()
            return False
        return reply.has_length


def _start(request: Request, reply: Reply) -> tuple[int, int]:
    wanted = request.headers.get("range", "")
    if reply.status != 200 or not wanted:
        return reply.status, 0
    etag = reply.headers.get("ETag", "")
    if request.headers.get("if-range", etag) != etag:
        return 200, 0
    start = int(wanted.removeprefix("bytes=").partition("-")[0])
    return (206, start) if start < reply.body.length else (416, 0)


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[HttpFiles]:
    """A server on a free port of this host."""
    made = HttpFiles(handler)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        made.gate.set()
        server.close()
        await made.close()
