"""What a pass may do, one small frozen value an action, each with the reason for it.

``decide`` makes them, ``effects`` says what they change, the applier sends the orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from llmgw.domain.nodes import Liveness
from llmgw.domain.replicas import Replica, ShardSpec
from llmgw.domain.snapshots import Failures, Reservation


@dataclass(frozen=True, slots=True)
class ExpireNode:
    """A node has been silent since ``last_seen_at``; void if it has spoken meanwhile."""

    node_id: str
    liveness: Liveness
    last_seen_at: float
    reason: str


@dataclass(frozen=True, slots=True)
class LoseShards:
    """Write off what a replica runs on a node that is lost."""

    replica_id: str
    node_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class MarkFailed:
    """Give a replica up; ``failures`` is what its model then has against it, if it is to blame."""

    replica_id: str
    reason: str
    failures: Failures | None = None


@dataclass(frozen=True, slots=True)
class Drain:
    """Send a replica no new work, and let go what it does."""

    replica_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Drain an idle replica, so that another model has room, and keep that room for it."""

    replica_id: str
    reservation: Reservation
    reason: str


@dataclass(frozen=True, slots=True)
class Unreserve:
    """Keep room for a model no longer."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class HaltRoll:
    """Replace no more replicas of a model, and leave as they are those that still serve."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class EndRoll:
    """All replicas of a model are of the present profile."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class Move:
    """Have a replica replaced elsewhere; it serves until that is done."""

    replica_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stay:
    """A replica that was to be replaced may stay after all."""

    replica_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class StopShards:
    """Tell nodes to end these shards, for the first time or again."""

    replica_id: str
    shard_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Release:
    """Forget a replica and free all it holds; what has not confirmed its end becomes a stray."""

    replica_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ForgetFailures:
    """Count a model's failures from none again."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class ResendStart:
    """Send the start of a shard again: its node has said nothing, or is to wait for longer."""

    spec: ShardSpec
    node_id: str
    reason: str

    @property
    def replica_id(self) -> str:
        """The replica of the shard."""
        return self.spec.replica_id


@dataclass(frozen=True, slots=True)
class StopStray:
    """Tell a node again to end an engine that nobody wants."""

    node_id: str
    shard_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Place:
    """Record a new replica with its claims, then start its shards, rank 0 first."""

    replica: Replica
    specs: tuple[ShardSpec, ...]
    reason: str


Action: TypeAlias = (
    ExpireNode
    | LoseShards
    | MarkFailed
    | Drain
    | Evict
    | Unreserve
    | HaltRoll
    | EndRoll
    | Move
    | Stay
    | StopShards
    | Release
    | ForgetFailures
    | ResendStart
    | StopStray
    | Place
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass does, in order, and why each model that it could not place was refused.

    ``faults`` are mistakes of our own: what failed was left out, and the rest was decided.
    """

    actions: tuple[Action, ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Exception, ...] = ()
