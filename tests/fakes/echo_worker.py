"""A worker process whose gateway answers each connection with its pid and the number of its table.

It is ``serve.gateway_worker`` with the real gateway left out, so that tests of sockets, links and
succession do not depend on how requests are carried.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from llmgw.kit import logs
from llmgw.kit.metrics import Sample
from llmgw.serve import loops
from llmgw.serve.gateway_worker import Ties, Worker
from llmgw.serve.messages import Configure


class EchoGateway:
    """Answers ``HTTP/1.1 200`` with ``pid table-number`` after reading a request's head."""

    def __init__(self, configured: Configure, ties: Ties) -> None:
        self._routes = ties.routes
        self._servers: list[asyncio.Server] = []
        self._answered = 0

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        if os.environ.get("ECHO_FAILS"):
            raise RuntimeError("told to fail")
        for sock in sockets:
            self._servers.append(await asyncio.start_server(self._answer, sock=sock.dup()))

    def figures(self):
        return (Sample("llmgw_workload_total", ("completed",), self._answered),)

    def receipt(self, request_id):
        return None

    async def drain(self, grace_s: float, *, delay_s: float = 0.0) -> None:
        for server in self._servers:
            server.close()

    async def close(self) -> None:
        await self.drain(0.0)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            body = f"{os.getpid()} {self._routes.current().number}".encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
            self._answered += 1
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--listener-fd", type=int, required=True)
    words.add_argument("--link-fd", type=int, required=True)
    words.add_argument("--run-dir", type=Path, required=True)
    given = words.parse_args()
    logs.setup()
    listener = socket.socket(fileno=given.listener_fd)

    async def run() -> None:
        worker = Worker(listener=listener, run_dir=given.run_dir, make_gateway=EchoGateway)
        await worker.run(socket.socket(fileno=given.link_fd))

    loops.run(run())


if __name__ == "__main__":
    main()
