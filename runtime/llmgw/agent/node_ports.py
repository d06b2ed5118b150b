"""What the agent's session needs from the rest of the agent; orders and discovery just fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from llmgw.domain.deeds import Deed, EngineWant
from llmgw.domain.nodes import HeartbeatFacts, NodeFacts
from llmgw.domain.replicas import RunningShard, ShardSpec


class ShardOrders(Protocol):
    """Carries out orders about shards without making the caller wait; each may come twice."""

    def running(self) -> tuple[RunningShard, ...]:
        """Live shards, and those whose weights are still fetched."""
        ...

    def start(self, spec: ShardSpec) -> None:
        """Start a shard; nothing happens when it runs already."""
        ...

    def stop(self, shard_id: str) -> None:
        """Stop a shard; an unknown one is reported as stopped."""
        ...

    def drain(self, shard_id: str) -> None:
        """Take no new work on a shard; one that does not run says where it stands."""
        ...

    def log_sources(self) -> tuple[str, ...]:
        """The names of all logs that can be shown."""
        ...

    def log_tail(self, source: str, lines: int) -> tuple[str, ...]:
        """The newest lines of one log, the oldest first; ``Unknown`` for another name."""
        ...


class NodeUpkeep(Protocol):
    """Carries out orders about the node itself; ``on_done`` hears what became of each thing."""

    def remove_weights(
        self, paths: Sequence[str], *, on_done: Callable[[tuple[Deed, ...]], None]
    ) -> None:
        """Remove downloads; each is judged here."""
        ...

    def fetch_weights(
        self,
        sources: Sequence[str],
        *,
        is_cancelled: bool,
        on_done: Callable[[tuple[Deed, ...]], None],
    ) -> None:
        """Fetch weights ahead of whatever will start with them, or no longer."""
        ...

    def provision(
        self, wants: Sequence[EngineWant], *, on_done: Callable[[tuple[Deed, ...]], None]
    ) -> None:
        """Install engines; one that fails later is told of once more."""
        ...

    def check_engine(self, engine: str, *, on_done: Callable[[tuple[Deed, ...]], None]) -> None:
        """Ask an engine's programs whether they take what its driver gives them."""
        ...


class Facts(Protocol):
    """Says what the node is."""

    async def facts(self) -> NodeFacts:
        """All that a registration carries, read now."""
        ...

    async def refresh(self) -> HeartbeatFacts:
        """All that a heartbeat may carry, read now; whether it changed is not its concern."""
        ...
