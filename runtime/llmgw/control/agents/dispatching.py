"""Gives orders to nodes: what the reconciler calls a dispatcher.

Only who holds a node's stream can command it. Every order carries the leader's term, so that a node
which knows a newer leader refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from llmgw.control.agents.connections import Connections
from llmgw.control.agents.fleet_ports import Leadership
from llmgw.control.agents.logs import LogQuestions
from llmgw.domain.deeds import Deed, EngineWant
from llmgw.domain.replicas import ShardSpec
from llmgw.domain.views import LogTail
from llmgw.errors import LlmgwError, NotConnected
from llmgw.kit import ids
from llmgw.rpc import wire_orders, wire_shards
from llmgw.rpc.v1 import agent_pb2 as pb

ANSWER_S = 60.0
"""A node may take that long to remove what it was asked to: files of hundreds of gigabytes."""

CHECK_ANSWER_S = 420.0
"""vLLM and SGLang load torch before they tell their options; the node's own bound is lower."""


class Dispatcher:
    """Sends orders on the open streams; each raises ``NotConnected`` where there is none."""

    def __init__(
        self,
        *,
        connections: Connections,
        leadership: Leadership,
        questions: LogQuestions,
        answer_s: float = ANSWER_S,
    ) -> None:
        """``connections`` and ``questions`` are those of the agent service.

        ``answer_s`` bounds the wait for what became of an order.
        """
        self._answer_s = answer_s
        self._connections = connections
        self._leadership = leadership
        self._questions = questions

    def start(self, node_id: str, spec: ShardSpec) -> None:
        """Start a shard."""
        message = wire_shards.pack_start(spec, term=self._leadership.term())
        self._connections.find(node_id).send(message)

    def stop(self, node_id: str, shard_id: str) -> None:
        """Stop a shard."""
        message = wire_shards.pack_stop(shard_id, term=self._leadership.term())
        self._connections.find(node_id).send(message)

    def drain(self, node_id: str, shard_id: str) -> None:
        """Let a shard take no new work."""
        message = wire_shards.pack_drain(shard_id, term=self._leadership.term())
        self._connections.find(node_id).send(message)

    def dismiss(self, node_id: str, reason: LlmgwError) -> None:
        """End a node's stream, if it has one: its agent hears why."""
        with suppress(NotConnected):
            self._connections.find(node_id).end(reason)

    async def remove_weights(self, node_id: str, paths: Sequence[str]) -> tuple[Deed, ...]:
        """Ask a node to remove downloads; it decides for each, and says why one stays."""
        request_id = ids.token(8)
        message = wire_orders.pack_remove_weights(
            paths, request_id=request_id, term=self._leadership.term()
        )
        return await self._ask(node_id, message, request_id=request_id)

    async def fetch_weights(
        self, node_id: str, sources: Sequence[str], *, is_cancelled: bool
    ) -> tuple[Deed, ...]:
        """Ask a node to fetch weights ahead, or no longer; heartbeats tell how far it is."""
        request_id = ids.token(8)
        message = wire_orders.pack_fetch_weights(
            sources,
            is_cancelled=is_cancelled,
            request_id=request_id,
            term=self._leadership.term(),
        )
        return await self._ask(node_id, message, request_id=request_id)

    async def provision(self, node_id: str, wants: Sequence[EngineWant]) -> tuple[Deed, ...]:
        """Ask a node to install engines; heartbeats tell how far it is."""
        request_id = ids.token(8)
        message = wire_orders.pack_provision(
            wants, request_id=request_id, term=self._leadership.term()
        )
        return await self._ask(node_id, message, request_id=request_id)

    async def check_engine(self, *, node_id: str, engine: str) -> tuple[Deed, ...]:
        """Have a node compare an engine's options with its driver's; a deed for each program."""
        request_id = ids.token(8)
        message = wire_orders.pack_check_engine(
            engine, request_id=request_id, term=self._leadership.term()
        )
        return await self._ask(node_id, message, request_id=request_id, within_s=CHECK_ANSWER_S)

    async def _ask(
        self,
        node_id: str,
        message: pb.ControlMessage,
        *,
        request_id: str,
        within_s: float | None = None,
    ) -> tuple[Deed, ...]:
        connection = self._connections.find(node_id)
        bound_s = self._answer_s if within_s is None else within_s
        reply = await connection.ask(message, request_id=request_id, within_s=bound_s)
        return reply.deeds

    async def logs(self, *, node_id: str, source: str, lines: int = 0) -> LogTail:
        """The tail of one of the node's logs; ``Unknown`` source, ``DeadlinePassed`` after 10 s."""
        connection = self._connections.find(node_id)
        return await self._questions.ask(
            connection, source=source, lines=lines, term=self._leadership.term()
        )
