"""A control plane's end of the house socket, byte for byte as a test says."""

from __future__ import annotations

import asyncio


class FakeHouse:
    """Answers every request with ``answer``; keeps what came in ``heads`` and ``bodies``."""

    def __init__(self, path):
        self.path = path
        self.answer = b""
        self.heads = []
        self.bodies = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.left = asyncio.Event()
        self._server = None

    async def start(self):
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def close(self):
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.heads.append(head)
        length = next(
            int(line.split(":")[1]) for line in head.split("\r\n") if "content-length" in line
        )
        self.bodies.append(await reader.readexactly(length))
        try:
            pieces = self.answer if isinstance(self.answer, list) else [self.answer]
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if not self.may_answer.is_set():
                await reader.read()
                self.left.set()
        except ConnectionError:
            self.left.set()
        finally:
            writer.close()
