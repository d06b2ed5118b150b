"""What runs: replicas and their shards, how states follow from each other, the legal steps."""

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
    ShardState.PENDING: frozenset(
        {ShardState.STARTING, ShardState.DRAINING, ShardState.STOPPED, ShardState.FAILED}
    ),
    ShardState.STARTING: frozenset(
        {ShardState.LOADING, ShardState.DRAINING, ShardState.STOPPED, ShardState.FAILED}
    ),
    ShardState.LOADING: frozenset(
        {ShardState.READY, ShardState.DRAINING, ShardState.STOPPED, ShardState.FAILED}
    ),
    ShardState.READY: frozenset({ShardState.DRAINING, ShardState.STOPPED, ShardState.FAILED}),
    ShardState.DRAINING: frozenset({ShardState.STOPPED, ShardState.FAILED}),
    ShardState.STOPPED: frozenset(),
    ShardState.FAILED: frozenset(),
}
"""Legal steps of the supervisor; a new start makes a new record."""


PORT_IN_USE = "port_in_use"
"""How a shard's error begins when a stranger holds its port, so that the port is avoided."""


def step(*, shard: str, now: ShardState, to: ShardState) -> ShardState:
    """The next state, or ``IllegalTransition`` when the table has no such step."""
    if to not in SHARD_STEPS[now]:
        raise IllegalTransition(f"shard {shard} cannot go from {now} to {to}")
    return to


def observed(*, held: ShardState, reported: ShardState) -> ShardState:
    """The state after a report of the agent, whose word is the truth; nothing follows an end."""
    return held if held.is_final else reported


class ReplicaState(enum.StrEnum):
    """Derived from the shards; never stored."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """How far a download of weights is; a total of ``None``: the source gave no length.

    The rate is that of the last half minute, unknown at first.
    """

    source: str
    done_bytes: int
    total_bytes: int | None = None
    bytes_per_s: float | None = None

    @property
    def eta_s(self) -> float | None:
        """Seconds until all has come, where length and rate are known and something comes."""
        if self.total_bytes is None or not self.bytes_per_s:
            return None
        return max(0, self.total_bytes - self.done_bytes) / self.bytes_per_s


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
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    capabilities: tuple[str, ...] = ()
    context_length: int | None = None


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """All that starting one shard needs; ports are TCP, addresses of the management network."""

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

    @property
    def is_follower(self) -> bool:
        """Whether it is one of several ranks and not the first, at whose port they meet."""
        return self.nnodes > 1 and self.rank != 0


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
    is_drained: bool = False
    """While it drains: its engine says that it has no request any more."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard as the control plane holds it.

    ``ordered_at`` is when its last order was sent, ``start_orders`` how many were starts, and
    ``is_reported`` whether its agent has ever spoken of it.
    """

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
    fetch_rose_at: float | None = None
    """When its download last got on."""
    fetch_bytes: int = 0
    """Size of what it had to download, kept when that is done."""
    since_at: float = 0.0
    launched_at: float | None = None
    """When its process was seen to start, which is after its download."""
    is_reported: bool = False
    is_drained: bool = False
    """Its engine has said, since the drain began, that it has no request any more."""
    is_gone: bool = False
    """It ended with its node or agent, which is nothing that its model did."""
    ordered_at: float | None = None
    start_orders: int = 0
    stop_asked_at: float | None = None

    @property
    def is_port_taken(self) -> bool:
        """It failed because somebody else holds its port, which is nothing that its model did."""
        return self.state is ShardState.FAILED and self.error.startswith(PORT_IN_USE)

    @property
    def is_stop_asked(self) -> bool:
        """Its end is wanted, so that it is no failure."""
        return self.stop_asked_at is not None


@dataclass(frozen=True, slots=True)
class Replica:
    """One running copy of a model: its shards, where it answers, and since when.

    ``ready_at`` is stamped once. ``adopted_at`` stands while parts of an adopted replica are
    missing, ``unready_at`` while a restarted agent looks again at a replica that was ready,
    ``failure`` from the moment it is given up; its claims are held until it is released whole.
    ``moving_since_at`` stands while it serves and is to be replaced, until another one serves.
    ``evicted_for`` is the model that it makes room for.
    """

    replica_id: str
    model: str
    profile: str
    shards: tuple[Shard, ...]
    want_shards: int = 1
    profile_fp: str = ""
    engine: str = ""
    pool: str = ""
    fabric: str = ""
    memory_claim_gb: float = 0.0
    disk_claim_gb: float = 0.0
    leader_addr: str = ""
    meeting_ports: int = 1
    """How many ports rank 0 opens from its ``leader_port`` upwards."""
    created_at: float = 0.0
    ready_at: float | None = None
    adopted_at: float | None = None
    unready_at: float | None = None
    moving_since_at: float | None = None
    drain_since_at: float | None = None
    drain_reason: str = ""
    evicted_for: str = ""
    failed_at: float | None = None
    failure: str = ""

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

    def ports_of(self, shard: Shard) -> tuple[int, ...]:
        """The ports of its node that a shard may open."""
        first = shard.leader_port
        meeting = range(first, first + self.meeting_ports) if first else ()
        return (shard.http_port, *meeting) if shard.http_port else tuple(meeting)

    @property
    def is_moving(self) -> bool:
        """It serves until another one does in its stead, and does not count any more."""
        return self.moving_since_at is not None

    @property
    def is_over(self) -> bool:
        """Nothing of it runs any more."""
        return all(s.state.is_final for s in self.shards)

    @property
    def starting_since_at(self) -> float:
        """From when its startup timeout counts."""
        return max(self.created_at, self.adopted_at or 0.0, self.unready_at or 0.0)

    @property
    def state(self) -> ReplicaState:
        """Derived from the shards; the first rule that matches wins."""
        if self.failed_at is not None:
            return ReplicaState.FAILED
        is_leaving = self.drain_since_at is not None
        if not is_leaving and self._serves:  # first, because nearly all do at nearly all times
            return ReplicaState.READY
        if self.shards and all(
            s.state is ShardState.STOPPED and (is_leaving or s.is_stop_asked) for s in self.shards
        ):
            return ReplicaState.STOPPED
        if any(_is_dead(s, is_leaving=is_leaving) for s in self.shards):
            return ReplicaState.FAILED
        if is_leaving:
            return ReplicaState.DRAINING
        if len(self.shards) < self.want_shards:
            return ReplicaState.STARTING if self.adopted_at is not None else ReplicaState.FAILED
        return ReplicaState.STARTING

    @property
    def _serves(self) -> bool:
        """Every shard that is wanted is there and ready, and the address is known."""
        if len(self.shards) < self.want_shards or not self.leader_addr:
            return False
        has_port = False
        for shard in self.shards:
            if shard.state is not ShardState.READY:
                return False
            has_port = has_port or (shard.rank == 0 and shard.http_port != 0)
        return has_port


def _is_dead(shard: Shard, *, is_leaving: bool) -> bool:
    if shard.state is ShardState.STOPPED:
        return not (is_leaving or shard.is_stop_asked)
    return shard.state is ShardState.FAILED


@dataclass(frozen=True, slots=True)
class Stray:
    """An engine that nobody wants and that has not confirmed its end; its port stays reserved.

    ``ordered_at`` is when its node was last told to stop it; its cards are given to nobody else
    until ``cards_until_at``.
    """

    node_id: str
    shard_id: str
    http_port: int
    ordered_at: float | None = None
    gpu_indices: tuple[int, ...] = ()
    cards_until_at: float = 0.0
