"""Gives orders to nodes: what the reconciler calls a dispatcher.

Only who holds a node's stream can command it. Every order carries the leader's term, so that a node
which knows a newer leader refuses it.
"""

from __future__ import annotations

from llmgw.control.agents.connections import Connections
from llmgw.control.agents.fleet_ports import Leadership
from llmgw.control.agents.logs import LogQuestions
from llmgw.domain.replicas import ShardSpec
from llmgw.domain.views import LogTail
from llmgw.rpc import wire_shards


class Dispatcher:
    """Sends orders on the open streams; each raises ``NotConnected`` where there is none."""

    def __init__(
        self, *, connections: Connections, leadership: Leadership, questions: LogQuestions
    ) -> None:
        """``connections`` and ``questions`` are those of the agent service."""
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

    async def logs(self, *, node_id: str, source: str, lines: int = 0) -> LogTail:
        """The tail of one of the node's logs; ``Unknown`` source, ``DeadlinePassed`` after 10 s."""
        connection = self._connections.find(node_id)
        return await self._questions.ask(
            connection, source=source, lines=lines, term=self._leadership.term()
        )
