"""What waits to be sent to the control plane, in order and bounded; one writer takes from it.

It outlives a session. Between sessions only reports of ended shards are kept, because everything
else is said again by the next registration; the oldest go when there are too many.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from llmgw.domain.replicas import ShardReport
from llmgw.errors import Exhausted
from llmgw.rpc import wire_shards
from llmgw.rpc.v1 import agent_pb2 as pb

LIMIT = 256


@dataclass(frozen=True, slots=True, eq=False)
class Letter:
    """One message; ``report`` is what it was made from, ``sent`` is told when it has left."""

    message: pb.AgentMessage
    report: ShardReport | None = None
    sent: asyncio.Future[None] | None = None


class Outbox:
    """A queue with one reader."""

    def __init__(self, *, limit: int = LIMIT) -> None:
        """``limit`` bounds the messages that wait."""
        self._limit = limit
        self._letters: deque[Letter] = deque()
        self._arrived = asyncio.Event()
        self._is_open = False
        self._is_full = False
        self.dropped = 0

    def open(self, *, running: Collection[str]) -> None:
        """A session begins with these shard ids registered: news of other, ended ones is kept."""
        self._letters = deque(_ended(self._letters, running=running))
        self._is_open, self._is_full = True, False

    def close(self) -> None:
        """The session ended."""
        self._is_open = False
        self._letters = deque(_ended(self._letters, running=()))

    def report(self, report: ShardReport) -> None:
        """Say where a shard stands, now or, if it has ended, in the next session."""
        if self._is_open or report.state.is_final:
            self._put(Letter(message=wire_shards.pack_report(report), report=report))

    def put(self, message: pb.AgentMessage) -> None:
        """Say something in this session; without one it is too late."""
        if self._is_open:
            self._put(Letter(message=message))

    async def deliver(self, message: pb.AgentMessage) -> None:
        """Say something in this session and return when it was sent."""
        sent = asyncio.get_running_loop().create_future()
        self._put(Letter(message=message, sent=sent))
        await sent

    async def first(self) -> Letter:
        """The letter to send now; it stays until ``done``. ``Exhausted`` when too many waited."""
        while not self._letters and not self._is_full:
            self._arrived.clear()
            await self._arrived.wait()
        if self._is_full:
            raise Exhausted(
                f"more than {self._limit} messages wait for the control plane; registering anew"
            )
        return self._letters[0]

    def done(self, letter: Letter) -> None:
        """It was sent."""
        if self._letters and self._letters[0] is letter:
            self._letters.popleft()
        if letter.sent is not None and not letter.sent.done():
            letter.sent.set_result(None)

    def _put(self, letter: Letter) -> None:
        if len(self._letters) >= self._limit:
            self._is_full = self._is_open
            self._letters.popleft()
            self.dropped += 1
        self._letters.append(letter)
        self._arrived.set()


def _ended(letters: Iterable[Letter], *, running: Collection[str]) -> Iterable[Letter]:
    for letter in letters:
        report = letter.report
        if report is not None and report.state.is_final and report.shard_id not in running:
            yield letter
