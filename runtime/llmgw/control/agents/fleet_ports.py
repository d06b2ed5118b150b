"""What the agent service needs from the control plane; reconciler and elector just fit."""

from __future__ import annotations

from typing import Protocol

from llmgw.domain.nodes import HeartbeatFacts, NodeFacts
from llmgw.domain.replicas import RunningShard, ShardReport


class FleetEvents(Protocol):
    """Hears what nodes say; each call returns at once."""

    def register(self, facts: NodeFacts, running: tuple[RunningShard, ...]) -> tuple[str, ...]:
        """A node said what it is and what runs on it; the shard ids that it shall stop."""
        ...

    def heartbeat(self, node_id: str, beat: HeartbeatFacts) -> bool:
        """A node is alive; false when it is not known, so that it must register again."""
        ...

    def shard_report(self, report: ShardReport) -> None:
        """A shard stands somewhere."""
        ...

    def stream_lost(self, node_id: str) -> None:
        """The node's stream ended and no newer one has taken its place."""
        ...


class Leadership(Protocol):
    """Whether this control plane may command."""

    def is_leader(self) -> bool:
        """A standby takes no agents."""
        ...

    def term(self) -> int:
        """The leader's term, which every order carries; 0 where no terms are kept."""
        ...

    def heard(self, term: int) -> None:
        """A node has seen this term; one above our own says that another has led since."""
        ...
