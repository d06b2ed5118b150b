"""What a pass of the reconciler decides from: the cluster at one instant, as one frozen value.

Times are seconds of the control plane's monotonic clock. The same values serve the live pass,
``explain`` and tests; nothing in here knows a clock, a socket or a setting's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.domain.catalog import Catalog, Model
from llmgw.domain.nodes import Node
from llmgw.domain.replicas import Replica, Stray
from llmgw.domain.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Bounds:
    """The times and ranges that deciders go by."""

    unreachable_after_s: float = 15.0
    lost_after_s: float = 60.0
    answered_within_s: float = 15.0
    """A lost node whose engine has answered a client within this time serves on unheard."""
    unheard_most: float = 5.0
    """After so many times ``lost_after_s`` it is given up all the same."""
    base_backoff_s: float = 10.0
    max_backoff_s: float = 600.0
    settle_window_s: float = 60.0
    port_range: tuple[int, int] = (20000, 20999)
    steady_after_s: float = 600.0
    """Ready for this long: the next failure is not counted together with earlier ones."""
    release_after_s: float = 75.0
    """A stop that nobody confirms: the agent's own 60 s and some slack."""
    resend_after_s: float = 10.0
    """An order that nothing was heard of is sent again after this."""
    start_orders: int = 4
    """How often a start is sent before its timeout alone decides."""
    drain_grace_s: float = 60.0
    """How long requests in flight may go on in a replica that is to stop."""
    move_grace_s: float = 600.0
    """The least time that a replacement of a moving replica has; then the old one goes anyway."""
    hang_after_s: float = 120.0
    """A replica that has made no progress for so long is given up."""
    avoid_s: float = 600.0
    """How long a node where a model failed is its last choice, and a stranger's port is left."""
    max_unavailable: int = 1
    """How many replicas of one model may be under replacement at a time."""
    min_residency_s: float = 300.0
    """A replica that serves for less than this is not stopped to make room for another model."""
    evict_idle_after_s: float = 60.0
    """Nor is one that was used within this time."""
    reserve_s: float = 60.0
    """How long the room that was made is kept for the model that it was made for."""
    unwanted_after_s: float = 60.0
    """A load that nobody has waited for in this time may be given up."""
    canary_s: float = 60.0
    """How long the first replica of a changed profile serves before the others follow it."""
    brake_fraction: float = 0.3
    """So great a share of the nodes that fall silent together is no loss of nodes."""
    brake_min_nodes: int = 3
    """Fewer nodes than this never are."""
    brake_window_s: float = 60.0
    """How long apart they may have spoken last to count as together."""
    brake_max_s: float = 600.0
    """After this they are given up as any other."""


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one model in a row, and all that is known of the last one.

    ``definition`` is the entry that failed: when somebody edits it, the count is void.
    """

    definition: Model
    count: int
    until_at: float
    failed_at: float
    replica_id: str
    profile: str
    error: str
    node_id: str = ""
    exit_code: int | None = None
    last_output: tuple[str, ...] = ()
    by_profile: Mapping[str, int] = field(default_factory=dict)
    by_node: Mapping[str, float] = field(default_factory=dict)
    """When it failed last on each node."""
    profile_fp: str = ""
    """The version of the profile that failed last."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room that is made for a model, and kept from all others until ``until_at``.

    ``victims`` are stopped one after the other to make it; each node of ``gpus_by_node`` keeps
    these cards, and the memory and disk that one shard is to claim.
    """

    model: str
    victims: tuple[str, ...]
    gpus_by_node: Mapping[str, tuple[int, ...]]
    until_at: float
    memory_gb: float = 0.0
    disk_gb: float = 0.0


@dataclass(frozen=True, slots=True)
class Roll:
    """A model whose replicas of an older profile are being replaced, one after the other.

    ``halted`` says why it went no further; then all that still serves stays as it is.
    """

    model: str
    begun_at: float
    may_interrupt: bool = False
    """Where there is no room for both, the old one goes before the new one serves."""
    halted: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes, what runs on them, and what is remembered of what failed there.

    Strays are keyed by node and shard, blocked ports by node and port with the time of their end.
    """

    nodes: Mapping[str, Node] = field(default_factory=dict)
    replicas: Mapping[str, Replica] = field(default_factory=dict)
    strays: Mapping[tuple[str, str], Stray] = field(default_factory=dict)
    failures: Mapping[str, Failures] = field(default_factory=dict)
    blocked_ports: Mapping[tuple[str, int], float] = field(default_factory=dict)
    load_times: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """How many seconds the last start of each model and profile took, as far as it was seen."""
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    """By the model that they are for."""
    rolls: Mapping[str, Roll] = field(default_factory=dict)
    """By model."""


@dataclass(frozen=True, slots=True)
class Settling:
    """The wait after a start, in which nodes return before anything is placed."""

    started_at: float
    count: int = 0
    count_since_at: float = 0.0
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Brake:
    """Whether many nodes fell silent at once, so that none is given up and nothing is placed."""

    since_at: float | None = None
    """When it was put on; absent while it is off."""
    held: frozenset[str] = frozenset()
    """The nodes that it was put on for."""
    passed: frozenset[str] = frozenset()
    """Nodes whose silence does not put it on again."""
    spared_until: float = 0.0
    """Until then those are not given up yet: others have just come back, so they may as well."""

    @property
    def is_on(self) -> bool:
        """Whether it holds at this moment."""
        return self.since_at is not None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that ``decide`` sees; ``seed`` is the source of ids and jitter."""

    now: float
    catalog: Catalog
    cluster: Cluster
    settling: Settling
    brake: Brake = field(default_factory=Brake)
    bounds: Bounds = field(default_factory=Bounds)
    missing_since: Mapping[str, float] = field(default_factory=dict)
    """Since when each model has had fewer replicas than are wanted."""
    asked: frozenset[str] = frozenset()
    """Models that requests wait for, or have used just now."""
    asked_at: Mapping[str, float] = field(default_factory=dict)
    """When each model was last asked for; absent where that was long ago or never."""
    watched_since: Mapping[str, float] = field(default_factory=dict)
    """Since when the gateways have told of each replica without a break."""
    traffic: Traffic = field(default_factory=Traffic)
    draining_inflight: Mapping[str, int] = field(default_factory=dict)
    """Requests under way at each replica of which all gateways know that it drains."""
    is_leader: bool = True
    is_lapsed: bool = False
    """It led, its lease has run out, and nobody else is known to lead."""
    seed: int = 0
