"""Keeps one conversation with a control plane open for as long as the agent lives.

Dials, registers, then listens, speaks and beats until the stream ends, and dials again. Engines
go on serving meanwhile: whether the control plane is there is no concern of theirs. ``serve`` makes
one of these and runs it; orders report shards into ``report``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from grpc import aio

from llmgw.agent import dialling, refusals
from llmgw.agent.commands import Commands, Terms
from llmgw.agent.conversation import Conversation
from llmgw.agent.lookout import Lookout
from llmgw.agent.node_ports import Facts, NodeUpkeep, ShardOrders
from llmgw.agent.outbox import Outbox
from llmgw.config.servers import ServerAddress
from llmgw.domain.nodes import NodeFacts
from llmgw.domain.replicas import ShardReport
from llmgw.errors import Internal, LlmgwError, Superseded
from llmgw.kit import ids, logs
from llmgw.kit.backoff import Backoff
from llmgw.kit.clock import Clock, SystemClock
from llmgw.rpc import channels
from llmgw.rpc.v1 import agent_pb2_grpc

FACTS_FRESH_S = 10.0
"""Facts this old are still registered; dialling must not rescan the node at each try."""

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Who dials whom, and how patiently."""

    node_id: str
    servers: Sequence[str]
    tls: channels.TlsFiles | None = None
    heartbeat_s: float = 5.0
    reconnect_base_s: float = 1.0
    reconnect_max_s: float = 30.0
    answer_s: float = 10.0
    """From the first byte of a dial to the control plane's answer."""
    lookout_s: float = 5.0
    """Between two questions to the other control planes whether one of them leads."""


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """How the conversation stands; ``refusal`` is why the last one ended or did not begin."""

    address: str
    is_registered: bool
    sessions: int
    term: int
    refusal: str
    ignored_messages: int


class Session:
    """The agent's side of the conversation, over any number of streams."""

    def __init__(
        self,
        settings: SessionSettings,
        *,
        facts: Facts,
        orders: ShardOrders,
        upkeep: NodeUpkeep | None = None,
        clock: Clock | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """``SettingsInvalid`` when an address cannot be dialled as configured."""
        choices = dialling.addresses(settings.servers, has_tls=settings.tls is not None)
        backoff = Backoff(base_s=settings.reconnect_base_s, max_s=settings.reconnect_max_s)
        self._settings = settings
        self._facts = facts
        self._orders = orders
        self._clock = clock or SystemClock()
        self._draw = draw
        self._instance = ids.token(8)
        self._redial = dialling.Redial(choices, backoff=backoff)
        self._lookout = Lookout(
            choices,
            tls=settings.tls,
            every_s=settings.lookout_s,
            draw=draw,
            prefer=self._redial.prefer,
        )
        self._outbox = Outbox()
        self._terms = Terms()
        self._commands = Commands(
            node_id=settings.node_id,
            orders=orders,
            upkeep=upkeep,
            outbox=self._outbox,
            terms=self._terms,
        )
        self._known: tuple[float, NodeFacts] | None = None
        self._registered_at: float | None = None
        self._sessions = 0
        self._refusal = ""
        self._complaints = dialling.Complaints()

    @property
    def status(self) -> SessionStatus:
        """How the conversation stands now."""
        return SessionStatus(
            address=str(self._redial.address),
            is_registered=self._registered_at is not None,
            sessions=self._sessions,
            term=self._terms.highest,
            refusal=self._refusal,
            ignored_messages=self._commands.ignored,
        )

    def report(self, report: ShardReport) -> None:
        """Tell the control plane where a shard stands; what has ended is told even later."""
        self._outbox.report(report)

    async def run(self) -> None:
        """Hold a session, and another when it ends, until cancelled."""
        while True:
            address = self._redial.address
            ended = await self._attempt(address)
            now = self._clock.monotonic()
            pause_s = self._redial.ended(
                served_s=self._served_s(ended, now=now), now=now, draw=self._draw()
            )
            self._complain(ended, address=address, pause_s=pause_s)
            self._registered_at = None
            await asyncio.sleep(pause_s)

    async def _attempt(self, address: ServerAddress) -> LlmgwError:
        """Hold one session to its end; why it ended."""
        try:
            await self._hold(address)
        except LlmgwError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a node that gives up dialling is lost
            _log.error("session_failed", server=str(address), error=repr(error), exc=error)
            return Internal(f"{address}: the session failed by our own fault: {error!r}")

    async def _hold(self, address: ServerAddress) -> NoReturn:
        tls = None if address.is_plaintext else self._settings.tls
        channels.check_own_pair(
            tls,
            name=self._settings.node_id,
            refusal="not dialled, because this node would be refused",
            now=self._clock.wall(),
        )
        facts = await self._fresh_facts()
        channel = channels.open_channel(address.target, tls=tls)
        try:
            await self._converse(channel, address=address, facts=facts)
        except aio.AioRpcError as status:
            raise refusals.explain(status, address=address, tls=tls) from status
        finally:
            self._outbox.close()
            await channels.close(channel)

    async def _converse(
        self, channel: aio.Channel, *, address: ServerAddress, facts: NodeFacts
    ) -> NoReturn:
        conversation = Conversation(
            agent_pb2_grpc.AgentServiceStub(channel).Connect(None),
            outbox=self._outbox,
            commands=self._commands,
        )
        await conversation.register(
            facts,
            running=self._orders.running(),
            terms=self._terms,
            instance=self._instance,
            within_s=self._settings.answer_s,
        )
        self._begin(address)
        await conversation.hold(
            self._facts,
            registered=facts,
            heartbeat_s=self._settings.heartbeat_s,
            watch=self._lookout.watch(besides=address, terms=self._terms),
        )

    def _begin(self, address: ServerAddress) -> None:
        self._sessions += 1
        self._registered_at = self._clock.monotonic()
        self._refusal = ""
        self._complaints.clear()
        _log.info("registered", server=str(address), term=self._terms.highest or None)

    async def _fresh_facts(self) -> NodeFacts:
        now = self._clock.monotonic()
        if self._known is None or now - self._known[0] > FACTS_FRESH_S:
            facts = await self._facts.facts()
            self._known = (now, replace(facts, heartbeat_s=self._settings.heartbeat_s))
        return self._known[1]

    def _served_s(self, ended: LlmgwError, *, now: float) -> float | None:
        if self._registered_at is None or isinstance(ended, Superseded):
            return None
        return now - self._registered_at

    def _complain(self, ended: LlmgwError, *, address: ServerAddress, pause_s: float) -> None:
        """Log why a session ended or did not begin; the same again only once in a while."""
        self._refusal = ended.message
        if not self._complaints.is_due(address, ended.message, now=self._clock.monotonic()):
            return
        event = "not_registered" if self._registered_at is None else "session_ended"
        _log.warning(
            event,
            server=str(address),
            reason=ended.message,
            retry_s=pause_s,
            # Since the agent's start, where it was any.
            ignored=self._commands.ignored or None,
            refused=self._commands.refused or None,
            dropped=self._outbox.dropped or None,
        )
