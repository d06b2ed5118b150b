"""Pairs questions for a node's logs with the answers that come back on its stream."""

from __future__ import annotations

import asyncio
from typing import Any

from llmgw.control.agents.connections import Connection
from llmgw.domain.views import LogTail
from llmgw.errors import DeadlinePassed, Exhausted, NotConnected, Unknown
from llmgw.kit import ids
from llmgw.rpc.v1 import agent_pb2 as pb

DEFAULT_LINES = 200
MAX_LINES = 2000
MAX_OPEN = 256
ANSWER_S = 10.0


class LogQuestions:
    """The questions that wait for an answer."""

    def __init__(self, *, answer_s: float = ANSWER_S) -> None:
        """``answer_s`` bounds each wait."""
        self._answer_s = answer_s
        self._open: dict[tuple[str, str], asyncio.Future[pb.LogsReply]] = {}
        self.unasked = 0

    async def ask(
        self, connection: Connection, *, source: str, lines: int = 0, term: int = 0
    ) -> LogTail:
        """The tail of one log; ``Unknown`` source, ``NotConnected`` or ``DeadlinePassed``."""
        if len(self._open) >= MAX_OPEN:
            raise Exhausted(f"{MAX_OPEN} questions for logs wait already")
        key = (connection.node_id, ids.token(8))
        count = min(lines, MAX_LINES) if lines > 0 else DEFAULT_LINES
        request = pb.LogsRequest(request_id=key[1], source=source, lines=count, term=term)
        self._open[key] = asyncio.get_running_loop().create_future()
        try:
            connection.send(pb.ControlMessage(logs=request))
            reply = await self._wait(connection, self._open[key])
        finally:
            del self._open[key]
        if reply.error:
            raise Unknown(f"node {connection.node_id}: {reply.error}")
        return LogTail(lines=tuple(reply.lines), sources=tuple(reply.sources))

    def answer(self, node_id: str, reply: pb.LogsReply) -> None:
        """An answer came; one that nobody waits for any more is counted."""
        waiting = self._open.get((node_id, reply.request_id))
        if waiting is None or waiting.done():
            self.unasked += 1
            return
        waiting.set_result(reply)

    async def _wait(
        self, connection: Connection, reply: asyncio.Future[pb.LogsReply]
    ) -> pb.LogsReply:
        lost = asyncio.create_task(connection.ended(), name=f"logs.{connection.node_id}.lost")
        either: set[asyncio.Future[Any]] = {reply, lost}
        try:
            await asyncio.wait(either, timeout=self._answer_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
        if reply.done():
            return reply.result()
        if not connection.is_open:
            raise NotConnected(f"the stream of node {connection.node_id} ended before it answered")
        raise DeadlinePassed(
            f"node {connection.node_id} did not answer within {self._answer_s:g} s"
        )
