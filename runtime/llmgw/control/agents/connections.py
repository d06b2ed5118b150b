"""Knows the one open stream of every node, and what waits to be sent on it.

The service opens and closes connections, the dispatcher sends on them. A newer stream of the same
agent ends the older one, and what the older one leaves behind can never touch the newer; another
agent of the same name is kept out for as long as the first one is heard.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from llmgw.domain.deeds import OrderReply
from llmgw.errors import (
    AlreadyHeld,
    DeadlinePassed,
    Exhausted,
    LlmgwError,
    NotConnected,
    Superseded,
)
from llmgw.kit.clock import Clock, SystemClock
from llmgw.rpc.v1 import agent_pb2 as pb

LIMIT = 256
DEFAULT_HEARTBEAT_S = 5.0
_BEATS = 2
"""So many intervals without a word: the stream may be dead, and its node's name is free."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who speaks on a stream; no ``instance`` is an agent that cannot be told from others."""

    node_id: str
    peer: str
    instance: str = ""
    heartbeat_s: float | None = None


class Connection:
    """One node's open stream: orders go out in the order in which they were given."""

    def __init__(self, speaker: Speaker, *, now: float, limit: int = LIMIT) -> None:
        """``limit`` bounds the messages that wait; more of them end the stream."""
        self.speaker = speaker
        self.node_id = speaker.node_id
        self.heard_at = now
        self._limit = limit
        self._waiting: deque[pb.ControlMessage] = deque()
        self._arrived = asyncio.Event()
        self._questions: dict[str, asyncio.Future[OrderReply]] = {}
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

    async def ask(
        self, message: pb.ControlMessage, *, request_id: str, within_s: float
    ) -> OrderReply:
        """Give an order that is answered; ``NotConnected`` or ``DeadlinePassed`` without one."""
        reply: asyncio.Future[OrderReply] = asyncio.get_running_loop().create_future()
        self._questions[request_id] = reply
        try:
            self.send(message)
            either: set[asyncio.Future[Any]] = {reply, self._end}
            await asyncio.wait(either, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._questions[request_id]
        if reply.done():
            return reply.result()
        if not self.is_open:
            raise NotConnected(f"the stream of node {self.node_id} ended before it answered")
        raise DeadlinePassed(f"node {self.node_id} did not answer within {within_s:g} s")

    def answer(self, reply: OrderReply) -> None:
        """An answer came; one that nobody waits for any more is only logged by who heard it."""
        waiting = self._questions.get(reply.request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

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

    def __init__(self, *, clock: Clock | None = None) -> None:
        """Begin with none; ``clock`` says how long a node has been silent."""
        self._clock = clock or SystemClock()
        self._open: dict[str, Connection] = {}

    def check_free(self, speaker: Speaker) -> None:
        """``AlreadyHeld`` while another agent speaks for this node."""
        older = self._open.get(speaker.node_id)
        if older is None or not older.is_open or not _are_two(older.speaker, speaker):
            return
        patience_s = _BEATS * (older.speaker.heartbeat_s or DEFAULT_HEARTBEAT_S)
        if self._clock.monotonic() - older.heard_at < patience_s:
            raise AlreadyHeld(
                f"another agent instance is connected as node {speaker.node_id} from "
                f"{older.speaker.peer}: stop one of the two, or give each its own node_id "
                f"(this one is let in once the other has been silent for {patience_s:g} s)"
            )

    def open(self, speaker: Speaker) -> Connection:
        """The node's new stream, of which ``check_free`` said nothing; an older one ends."""
        older = self._open.get(speaker.node_id)
        if older is not None:
            older.end(
                Superseded(
                    f"node {speaker.node_id} opened a newer stream from {speaker.peer}; if that is "
                    "another agent, two have the same node_id"
                )
            )
        connection = Connection(speaker, now=self._clock.monotonic())
        self._open[speaker.node_id] = connection
        return connection

    def hear(self, connection: Connection) -> None:
        """Something came from the node."""
        connection.heard_at = self._clock.monotonic()

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


def _are_two(one: Speaker, other: Speaker) -> bool:
    return bool(one.instance and other.instance) and one.instance != other.instance
