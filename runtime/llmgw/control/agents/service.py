"""Holds the streams of all agents: lets in who may, passes on what they say, ends what must end.

The order on a new stream is fixed: leadership before anything is read, the registration, identity,
the fleet's answer, the acknowledgement, orders to stop what nobody claims. A refusal is a status
with a sentence that both sides log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from grpc import aio

from llmgw.control.agents import credible
from llmgw.control.agents.connections import Connection, Connections, Speaker
from llmgw.control.agents.fleet_ports import FleetEvents, Leadership
from llmgw.control.agents.logs import LogQuestions
from llmgw.control.agents.turned_away import Caller, TurnedAway
from llmgw.control.agents.voice import Voice
from llmgw.domain import names
from llmgw.errors import (
    DeadlinePassed,
    IdentityMismatch,
    Internal,
    Invalid,
    LlmgwError,
    Standby,
    Unauthenticated,
    Unknown,
)
from llmgw.kit import logs
from llmgw.rpc import wire_nodes, wire_orders, wire_shards
from llmgw.rpc.v1 import agent_pb2 as pb
from llmgw.rpc.v1 import agent_pb2_grpc

FIRST_MESSAGE_S = 10.0

_log = logs.get(__name__)

Context = aio.ServicerContext[pb.AgentMessage, pb.ControlMessage]


@dataclass(frozen=True, slots=True)
class Streams:
    """All that is known of the agents' streams: the open ones, what was asked, who was refused."""

    connections: Connections
    questions: LogQuestions
    turned_away: TurnedAway


class AgentService(agent_pb2_grpc.AgentServiceServicer):
    """The gRPC service that agents call."""

    def __init__(
        self,
        *,
        fleet: FleetEvents,
        leadership: Leadership,
        streams: Streams,
        must_identify: bool,
        first_message_s: float = FIRST_MESSAGE_S,
    ) -> None:
        """``must_identify``: an agent without a client certificate is refused."""
        self._fleet = fleet
        self._leadership = leadership
        self._connections = streams.connections
        self._questions = streams.questions
        self._turned_away = streams.turned_away
        self._must_identify = must_identify
        self._first_message_s = first_message_s
        self._ears: Mapping[str, Callable[[Connection, Any], None]] = {
            "heartbeat": self._hear_beat,
            "shard": self._hear_report,
            "logs": self._hear_logs,
            "order": self._hear_reply,
        }
        self.ignored = 0
        self.ended = 0

    async def Connect(self, request_iterator: object, context: Context) -> None:  # type: ignore[override] # noqa: ARG002, N802 - the stub knows iterators only; we read and write on the context
        """One agent's stream, to its end."""
        caller = Caller(peer=context.peer(), common_name=_common_name(context))
        voice = Voice(context)
        try:
            await self._serve(context, voice, caller)
        except LlmgwError as error:
            self.ended += 1
            self._turned_away.note(caller, error)
            # Every agent of a fleet asks its standbys again and again while no leader is there.
            level = _log.debug if isinstance(error, Standby) else _log.warning
            level("agent_stream_ended", peer=context.peer(), code=error.code, reason=error.message)
            await voice.refuse(error)
        except Exception as error:  # noqa: BLE001 - the outermost edge of one stream
            _log.error("agent_stream_failed", peer=context.peer(), error=repr(error), exc=error)
            await voice.refuse(Internal("the control plane failed; see its log"))

    async def Standing(  # noqa: N802 - the name of the call
        self,
        request: pb.StandingRequest,  # noqa: ARG002 - it says nothing
        context: aio.ServicerContext[pb.StandingRequest, pb.StandingReply],  # noqa: ARG002 - see above
    ) -> pb.StandingReply:
        """Whether this control plane leads, for agents of another one."""
        leads = self._leadership.is_leader()
        return pb.StandingReply(leads=leads, term=self._leadership.term() if leads else 0)

    async def _serve(self, context: Context, voice: Voice, caller: Caller) -> None:
        if not self._leadership.is_leader():
            raise Standby("this control plane is a standby; another one leads")
        register = await self._first(context)
        caller.node_id = register.node_id
        self._check_identity(caller)
        self._check_term(register)
        connection = self._admit(register, peer=caller.peer)
        try:
            await self._hold(connection, context, voice)
        finally:
            if self._connections.close(connection):
                _log.info("agent_gone", node=connection.node_id)
                self._fleet.stream_lost(connection.node_id)

    async def _first(self, context: Context) -> pb.Register:
        try:
            async with asyncio.timeout(self._first_message_s):
                message: object = await context.read()
        except TimeoutError as error:
            raise DeadlinePassed(
                f"no registration within {self._first_message_s:g} s of the stream's beginning"
            ) from error
        if not isinstance(message, pb.AgentMessage) or message.WhichOneof("kind") != "register":
            raise Invalid("the first message of a stream must be a registration")
        if not names.NODE_NAME.fullmatch(message.register.node_id):
            raise Invalid(f"{message.register.node_id!r} is no node id")
        return message.register

    def _check_identity(self, caller: Caller) -> None:
        for name in (caller.common_name, caller.node_id):
            if names.is_of_gateway(name):
                raise IdentityMismatch(
                    f"{name!r} names a gateway, which may watch routes and cannot be a node"
                )
        if caller.common_name and caller.common_name != caller.node_id:
            raise IdentityMismatch(
                f"certificate CN {caller.common_name!r} does not match node id {caller.node_id!r}"
            )
        if not caller.common_name and self._must_identify:
            raise Unauthenticated(f"node {caller.node_id!r} showed no client certificate")

    def _check_term(self, register: pb.Register) -> None:
        own = self._leadership.term()
        self._leadership.heard(register.term)
        if 0 < own < register.term:
            raise Standby(
                f"this control plane is a standby: it leads in term {own}, and node "
                f"{register.node_id!r} has seen term {register.term}"
            )

    def _admit(self, register: pb.Register, *, peer: str) -> Connection:
        """Take the node in; nothing awaits here, so no order overtakes the acknowledgement."""
        facts = wire_nodes.unpack_facts(register)
        running = wire_nodes.unpack_running(register)
        credible.check_facts(facts)
        credible.check_running(running)
        speaker = Speaker(
            node_id=facts.node_id,
            peer=peer,
            instance=register.instance,
            heartbeat_s=facts.heartbeat_s,
        )
        self._connections.check_free(speaker)
        unclaimed = self._fleet.register(facts, running)
        connection = self._connections.open(speaker)
        term = self._leadership.term()
        connection.send(pb.ControlMessage(ack=pb.Ack(ok=True, term=term)))
        for shard_id in unclaimed:
            connection.send(wire_shards.pack_stop(shard_id, term=term))
        _log.info(
            "agent_registered",
            node=facts.node_id,
            peer=peer,
            running=len(running),
            unclaimed=" ".join(unclaimed) or None,
        )
        return connection

    async def _hold(self, connection: Connection, context: Context, voice: Voice) -> None:
        """Carry messages both ways until the agent leaves, or raise why the stream is ended."""
        name = f"agents.{connection.node_id}"
        listening = asyncio.create_task(self._listen(connection, context), name=f"{name}.listen")
        speaking = asyncio.create_task(_speak(connection, voice), name=f"{name}.speak")
        ending = asyncio.create_task(connection.ended(), name=f"{name}.end")
        tasks = (ending, listening, speaking)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if ending.done() and not ending.cancelled():
            raise ending.result()
        for task in (listening, speaking):
            if not task.cancelled():
                task.result()

    async def _listen(self, connection: Connection, context: Context) -> None:
        while True:
            message: object = await context.read()
            if not isinstance(message, pb.AgentMessage) or not connection.is_open:
                return  # the agent has left, or a newer stream speaks for its node
            self._connections.hear(connection)
            self._hear(connection, message)

    def _hear(self, connection: Connection, message: pb.AgentMessage) -> None:
        """Pass one message on; a bad one is refused and does not end the stream."""
        kind = message.WhichOneof("kind") or "unknown"
        ear = self._ears.get(kind)
        if ear is None:
            self.ignored += 1
            _log.warning("message_ignored", node=connection.node_id, kind=kind)
            return
        try:
            ear(connection, getattr(message, kind))
        except Invalid as error:
            self.ignored += 1
            _log.warning("message_refused", node=connection.node_id, reason=error.message)
            refusal = pb.Ack(ok=False, error=error.message, term=self._leadership.term())
            connection.send(pb.ControlMessage(ack=refusal))

    def _hear_beat(self, connection: Connection, heartbeat: pb.Heartbeat) -> None:
        beat = wire_nodes.unpack_heartbeat(heartbeat)
        credible.check_beat(beat, node_id=connection.node_id)
        if not self._fleet.heartbeat(connection.node_id, beat):
            connection.end(Unknown(f"node {connection.node_id} is not known here; register again"))

    def _hear_report(self, connection: Connection, status: pb.ShardStatus) -> None:
        report = wire_shards.unpack_report(status, node_id=connection.node_id)
        credible.check_report(report)
        self._fleet.shard_report(report)

    def _hear_logs(self, connection: Connection, reply: pb.LogsReply) -> None:
        self._questions.answer(connection.node_id, reply)

    def _hear_reply(self, connection: Connection, message: pb.OrderReply) -> None:
        reply = wire_orders.unpack_reply(message)
        for deed in reply.deeds:
            if not deed.is_done:
                _log.warning(
                    "order_refused_by_node",
                    node=connection.node_id,
                    order=reply.order,
                    subject=deed.subject,
                    reason=deed.detail,
                )
        connection.answer(reply)


def _common_name(context: Context) -> str:
    """Whom the client's certificate names; empty without one."""
    # Not peer_identities(): those are the host names whenever the certificate has some.
    names = context.auth_context().get("x509_common_name", ())
    return ", ".join(name.decode() for name in names)


async def _speak(connection: Connection, voice: Voice) -> None:
    while True:
        await voice.say(await connection.next())
