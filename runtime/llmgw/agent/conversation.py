"""Holds one stream with one control plane: registers, then listens, speaks and beats until it ends.

One task writes, one reads, one beats; the first to end ends all. The session owns the channel and
decides what comes after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import NoReturn

from grpc import aio

from llmgw.agent.beats import Beats
from llmgw.agent.commands import Commands, Terms
from llmgw.agent.node_ports import Facts
from llmgw.agent.outbox import Outbox
from llmgw.domain.nodes import HeartbeatFacts, NodeFacts
from llmgw.domain.replicas import RunningShard
from llmgw.errors import DeadlinePassed, Denied, Invalid, LlmgwError, Unreachable
from llmgw.kit import logs
from llmgw.kit.late_work import LateWork
from llmgw.rpc import wire_nodes
from llmgw.rpc.v1 import agent_pb2 as pb

_log = logs.get(__name__)

_NOTHING = HeartbeatFacts()


class Conversation:
    """One stream, from its first message to its end."""

    def __init__(
        self,
        call: aio.StreamStreamCall[pb.AgentMessage, pb.ControlMessage],
        *,
        outbox: Outbox,
        commands: Commands,
    ) -> None:
        """``call`` has been opened and nothing was sent on it."""
        self._call = call
        self._outbox = outbox
        self._commands = commands

    async def register(
        self,
        facts: NodeFacts,
        *,
        running: tuple[RunningShard, ...],
        terms: Terms,
        instance: str,
        within_s: float,
    ) -> None:
        """Say what the node is and what runs; returns when the control plane has taken it in."""
        self._outbox.open(running={shard.shard_id for shard in running})
        message = wire_nodes.pack_register(
            facts, running=running, term=terms.highest, instance=instance
        )
        try:
            async with asyncio.timeout(within_s):
                await self._send(message)
                answer = await self._receive()
        except TimeoutError as error:
            raise DeadlinePassed(f"no answer to the registration within {within_s:g} s") from error
        if answer.WhichOneof("kind") != "ack":
            raise Invalid("the first message was no answer to the registration")
        if not answer.ack.ok:
            raise Denied(answer.ack.error or "the registration was refused without a reason")
        terms.check(answer.ack.term)

    async def hold(
        self,
        facts: Facts,
        *,
        registered: NodeFacts,
        heartbeat_s: float,
        watch: Coroutine[object, object, NoReturn],
    ) -> NoReturn:
        """Listen, speak and beat; always ends by an exception, its own or ``watch``'s."""
        readings = LateWork(facts.refresh, name="session.reading")
        beating = self._beat(readings, registered=registered, every_s=heartbeat_s)
        try:
            await _until_one_ends(
                listen=self._listen(), speak=self._speak(), beat=beating, watch=watch
            )
        finally:
            await readings.close()

    async def _listen(self) -> NoReturn:
        while True:
            self._commands.obey(await self._receive())

    async def _speak(self) -> NoReturn:
        while True:
            letter = await self._outbox.first()
            await self._send(letter.message)
            self._outbox.done(letter)

    async def _beat(
        self, readings: LateWork[HeartbeatFacts], *, registered: NodeFacts, every_s: float
    ) -> NoReturn:
        beats = Beats(registered)
        while True:
            await asyncio.sleep(every_s)
            beat = beats.news(await _read(readings, within_s=every_s / 2))
            message = wire_nodes.pack_heartbeat(node_id=registered.node_id, beat=beat)
            await self._outbox.deliver(message)
            beats.said(beat)

    async def _send(self, message: pb.AgentMessage) -> None:
        try:
            await self._call.write(message)
        except asyncio.InvalidStateError:
            await self._receive()  # the call is over; this raises what ended it

    async def _receive(self) -> pb.ControlMessage:
        message = await self._call.read()
        if not isinstance(message, pb.ControlMessage):
            raise Unreachable("the control plane ended the stream without a reason")
        return message


async def _read(readings: LateWork[HeartbeatFacts], *, within_s: float) -> HeartbeatFacts:
    """A reading, or an empty one: a node whose tools hang or fail is still alive."""
    try:
        reading = await readings.result(wait_s=within_s)
    except LlmgwError as error:
        _log.warning("reading_failed", reason=error.message)
    except Exception as error:  # noqa: BLE001 - a beat without figures beats silence
        _log.error("reading_failed", reason=repr(error), exc=error)
    else:
        if reading is not None:
            return reading
        _log.warning("reading_slow", within_s=within_s)
    return _NOTHING


async def _until_one_ends(**works: Coroutine[object, object, NoReturn]) -> NoReturn:
    tasks = [asyncio.create_task(work, name=f"session.{name}") for name, work in works.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    reasons = [e for e in ends if not isinstance(e, asyncio.CancelledError)]
    raise reasons[0] if reasons else Unreachable("the stream was cancelled")
