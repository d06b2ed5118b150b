"""What runs: replicas and their shards, how states follow from each other, and which steps are legal."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.errors import IllegalTransition


class ShardState(enum.StrEnum):
    """Where one process group of a replica stands."""

    PENDING = "pending"
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Nothing runs any more and nothing will."""
        return self in _FINAL

    @property
    def is_live(self) -> bool:
        """A process exists."""
        return self in _LIVE


_FINAL = frozenset({ShardState.STOPPED, ShardState.FAILED})
_LIVE = frozenset({ShardState.STARTING, ShardState.LOADING, ShardState.READY, ShardState.DRAINING})

SHARD_STEPS: Mapping[ShardState, frozenset[ShardState]] = {
    ShardState.PENDING: frozenset({ShardState.STARTING, ShardState.DRAINING, ShardState.STOPPED, ShardState.FAILED}),
    ShardState.STARTING: frozenset({ShardState.LOADING, ShardState.DRAINING, ShardState.STOPPED, ShardState.FAILED}),
    ShardState.LOADING: frozenset({ShardState.READY, ShardState.DRAINING, ShardState.STOPPED, ShardState.FAILED}),
    ShardState.READY: frozenset({ShardState.DRAINING, ShardState.STOPPED, ShardState.FAILED}),
    ShardState.DRAINING: frozenset({ShardState.STOPPED, ShardState.FAILED}),
    ShardState.STOPPED: frozenset(),
    ShardState.FAILED: frozenset(),
}
"""Legal steps of the supervisor; a new start makes a new record."""


def step(*, shard: str, now: ShardState, to: ShardState) -> ShardState:
    """The next state, or ``IllegalTransition`` when the table has no such step."""
    if to not in SHARD_STEPS[now]:
        raise IllegalTransition(f"shard {shard} cannot go from {now} to {to}")
    return to


class ReplicaState(enum.StrEnum):
    """Derived from the shards; never stored."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """How far a download of weights is; a total of ``None`` means that the source gave no length."""

    source: str
    done_bytes: int
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LaunchProfile:
    """The part of a profile that an engine is started from, with the model's own names."""

    name: str
    engine: str
    model_path: str
    served_model_name: str
    gpu_class: str = ""
    tp: int = 1
    pp: int = 1
    nodes: int = 1
    gpus_per_node: int = 0
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    context_length: int | None = None


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """Everything that starting one shard needs; ports are TCP, addresses are on the management network."""

    replica_id: str
    shard_id: str
    profile: LaunchProfile
    http_port: int
    rank: int = 0
    nnodes: int = 1
    leader_addr: str = ""
    leader_port: int = 0
    gpu_indices: tuple[int, ...] = ()
    hcas: tuple[str, ...] = ()
    mgmt_interface: str = ""
    startup_timeout_s: float = 900.0
    pool: str = ""
    fabric: str = ""
    profile_fp: str = ""


@dataclass(frozen=True, slots=True)
class RunningShard:
    """One live (or still downloading) shard as an agent lists it when it registers."""

    replica_id: str
    shard_id: str
    state: ShardState
    model: str
    profile: str
    rank: int = 0
    nnodes: int = 1
    gpu_indices: tuple[int, ...] = ()
    hcas: tuple[str, ...] = ()
    http_port: int = 0
    leader_addr: str = ""
    leader_port: int = 0
    pool: str = ""
    fabric: str = ""
    profile_fp: str = ""


@dataclass(frozen=True, slots=True)
class ShardReport:
    """One report of a shard's state; an absent exit code is unknown, not zero."""

    node_id: str
    replica_id: str
    shard_id: str
    state: ShardState
    error: str = ""
    exit_code: int | None = None
    last_output: tuple[str, ...] = ()
    fetch: FetchProgress | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard as the control plane holds it."""

    shard_id: str
    node_id: str
    rank: int
    http_port: int
    state: ShardState = ShardState.PENDING
    gpu_indices: tuple[int, ...] = ()
    hcas: tuple[str, ...] = ()
    leader_port: int = 0
    error: str = ""
    exit_code: int | None = None
    last_output: tuple[str, ...] = ()
    fetch: FetchProgress | None = None
    is_stop_asked: bool = False
    since_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Replica:
    """One running copy of a model: its shards, where it answers, and since when."""

    replica_id: str
    model: str
    profile: str
    shards: tuple[Shard, ...]
    want_shards: int = 1
    profile_fp: str = ""
    pool: str = ""
    fabric: str = ""
    memory_claim_gb: float = 0.0
    leader_addr: str = ""
    created_at: float = 0.0
    ready_at: float | None = None
    adopted_at: float | None = None
    drain_since_at: float | None = None
    drain_reason: str = ""

    @property
    def leader(self) -> Shard | None:
        """Rank 0, once it is known."""
        return next((s for s in self.shards if s.rank == 0), None)

    @property
    def url(self) -> str | None:
        """Where rank 0 answers, or nothing while it is not known."""
        leader = self.leader
        if leader is None or not self.leader_addr or not leader.http_port:
            return None
        host = f"[{self.leader_addr}]" if ":" in self.leader_addr else self.leader_addr
        return f"http://{host}:{leader.http_port}"

    @property
    def state(self) -> ReplicaState:
        """Derived from the shards; the first rule that matches wins."""
        states = [s.state for s in self.shards]
        if states and all(s is ShardState.STOPPED for s in states) and all(s.is_stop_asked for s in self.shards):
            return ReplicaState.STOPPED
        if any(s.state is ShardState.FAILED or (s.state is ShardState.STOPPED and not s.is_stop_asked) for s in self.shards):
            return ReplicaState.FAILED
        if self.drain_since_at is not None:
            return ReplicaState.DRAINING
        if len(self.shards) < self.want_shards:
            return ReplicaState.STARTING if self.adopted_at is not None else ReplicaState.FAILED
        if all(s is ShardState.READY for s in states) and self.url is not None:
            return ReplicaState.READY
        return ReplicaState.STARTING


@dataclass(frozen=True, slots=True)
class Stray:
    """An engine that a node was told to stop and that has not confirmed; its port stays reserved."""

    node_id: str
    shard_id: str
    http_port: int
