"""Knows the one open stream of every node, and what waits to be sent on it.

The service opens and closes connections, the dispatcher sends on them. A newer stream of a node
ends the older one; what the older one leaves behind can never touch the newer.
"""

from __future__ import annotations

import asyncio
from collections import deque

from llmgw.errors import Exhausted, LlmgwError, NotConnected, Superseded
from llmgw.rpc.v1 import agent_pb2 as pb

LIMIT = 256


class Connection:
    """One node's open stream: orders go out in the order in which they were given."""

    def __init__(self, node_id: str, *, peer: str, limit: int = LIMIT) -> None:
        """``limit`` bounds the messages that wait; more of them end the stream."""
        self.node_id = node_id
        self.peer = peer
        self._limit = limit
        self._waiting: deque[pb.ControlMessage] = deque()
        self._arrived = asyncio.Event()
        self._end: asyncio.Future[LlmgwError] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Nothing has ended it yet."""
        return not self._end.done()

    def send(self, message: pb.ControlMessage) -> None:
        """Queue one message; ``NotConnected`` when the stream has ended or does not drain."""
        if len(self._waiting) >= self._limit:
            self.end(Exhausted(f"node {self.node_id} does not read: {self._limit} messages wait"))
        if not self.is_open:
            raise NotConnected(f"the stream of node {self.node_id} has ended")
        self._waiting.append(message)
        self._arrived.set()

    async def next(self) -> pb.ControlMessage:
        """The next message to write."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()

    def end(self, reason: LlmgwError) -> None:
        """Make the stream end; the agent is told the first reason given."""
        if self.is_open:
            self._end.set_result(reason)

    async def ended(self) -> LlmgwError:
        """Why it was made to end."""
        return await asyncio.shield(self._end)


class Connections:
    """The open streams by node."""

    def __init__(self) -> None:
        """Begin with none."""
        self._open: dict[str, Connection] = {}

    def open(self, node_id: str, *, peer: str) -> Connection:
        """The node's new stream; an older one ends."""
        older = self._open.get(node_id)
        if older is not None:
            older.end(
                Superseded(
                    f"node {node_id} opened a newer stream from {peer}; if that is another agent, "
                    "two have the same node_id"
                )
            )
        connection = Connection(node_id, peer=peer)
        self._open[node_id] = connection
        return connection

    def close(self, connection: Connection) -> bool:
        """The stream is over; whether it was the node's own, so that it has none now."""
        connection.end(NotConnected(f"the stream of node {connection.node_id} has ended"))
        if self._open.get(connection.node_id) is not connection:
            return False
        del self._open[connection.node_id]
        return True

    def find(self, node_id: str) -> Connection:
        """The node's open stream; ``NotConnected`` without one."""
        connection = self._open.get(node_id)
        if connection is None or not connection.is_open:
            raise NotConnected(f"node {node_id} has no open stream, so it cannot be commanded")
        return connection

    def node_ids(self) -> frozenset[str]:
        """The nodes that can be commanded."""
        return frozenset(n for n, c in self._open.items() if c.is_open)

    def end_all(self, reason: LlmgwError) -> None:
        """Make every stream end: leadership is lost, or the process stops."""
        for connection in self._open.values():
            connection.end(reason)
