"""An HTTP origin of one file that can misbehave as real ones do; knobs are attributes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field


@dataclass
class Origin:
    """What is served, how, and what was asked."""

    content: bytes
    etag: str = '"v1"'
    modified: str = ""
    status: int = 200
    content_type: str = "application/octet-stream"
    cut_after: int | None = None
    has_length: bool = True
    knows_ranges: bool = True
    knows_if_range: bool = True
    shift: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self.gate.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            asked = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in asked[1:] if line)
            }
            self.requests.append({"path": asked[0].split()[1], **headers})
            await self._answer(headers, writer)
            await writer.drain()
        writer.close()

    async def _answer(self, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        start, status = self._start(headers)
        body = self.content[start:] if status < 300 else b""
        writer.write(self._head(status, start=start, length=len(body)))
        sent = body if self.cut_after is None else body[: self.cut_after]
        half = len(sent) // 2
        writer.write(sent[:half])
        await writer.drain()
        await self.gate.wait()
        writer.write(sent[half:])

    def _start(self, headers: dict[str, str]) -> tuple[int, int]:
        wanted = headers.get("range", "")
        if self.status != 200 or not wanted or not self.knows_ranges:
            return 0, self.status
        validator = self.etag or self.modified
        if self.knows_if_range and headers.get("if-range", validator) != validator:
            return 0, 200
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        return (start + self.shift, 206) if start < len(self.content) else (0, 416)

    def _head(self, status: int, *, start: int, length: int) -> bytes:
        lines = [f"HTTP/1.1 {status} X", "Connection: close", f"Content-Type: {self.content_type}"]
        if self.etag:
            lines.append(f"ETag: {self.etag}")
        if self.modified:
            lines.append(f"Last-Modified: {self.modified}")
        whole = len(self.content)
        if status == 206:
            lines.append(f"Content-Range: bytes {start}-{whole - 1}/{whole}")
        if status == 416:
            lines.append(f"Content-Range: bytes */{whole}")
        if self.has_length:
            lines.append(f"Content-Length: {length}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


@contextlib.asynccontextmanager
async def origin(content: bytes, **knobs) -> AsyncIterator[Origin]:
    """A listening origin."""
    made = Origin(content, **knobs)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    made.url = f"http://127.0.0.1:{port}/models/tiny.gguf"
    try:
        yield made
    finally:
        made.gate.set()
        server.close()
        await server.wait_closed()
