"""What people and programs are shown of the fleet: one flat frozen value a thing, at one instant.

The reconciler makes them, the admin API and ``ctl`` show them; nobody decides anything from them.
Ages are seconds counted by the side that made the view, so that a reader's clock never matters.
``None`` is unknown or does not apply, and is shown as such; it is never a zero.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.domain.catalog import Scaling
from llmgw.domain.fetch_status import FetchStatus
from llmgw.domain.nodes import EngineInstall, Fabric, Host, LocalWeights, NodeTarget, Storage
from llmgw.domain.replicas import FetchProgress, ReplicaState, ShardState


class GpuUse(enum.StrEnum):
    """What a card does; one with a problem is neither free nor used."""

    FREE = "free"
    USED = "used"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class GpuView:
    """One card, what it does and for whom."""

    index: int
    gpu_class: str
    use: GpuUse
    name: str = ""
    uuid: str = ""
    replica_id: str | None = None
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    utilization_percent: int | None = None
    temperature_c: int | None = None
    power_watts: int | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node: what it has, what of that is promised, and since when it is silent.

    ``target`` is an operator's last word; ``state`` shows it unless the node is silent, or banned:
    then its agent is not let in.
    ``engine_versions`` is ``None`` for a node that never looked for engines, and empty for one that
    has none.
    """

    node_id: str
    state: str
    last_seen_s: float
    is_connected: bool = True
    target: NodeTarget = NodeTarget.READY
    flag_reason: str = ""
    flag_actor: str = ""
    is_banned: bool = False
    hostname: str = ""
    mgmt_addr: str = ""
    agent_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    host: Host = field(default_factory=Host)
    gpus: tuple[GpuView, ...] = ()
    fabrics: tuple[Fabric, ...] = ()
    fabric_problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    memory_total_mb: int | None = None
    memory_claimed_mb: int = 0
    memory_available_mb: int | None = None
    storage: tuple[Storage, ...] = ()
    weights: tuple[LocalWeights, ...] = ()
    engine_versions: Mapping[str, str] | None = None
    engine_installs: tuple[EngineInstall, ...] = ()
    fetches: tuple[FetchStatus, ...] = ()
    replica_ids: tuple[str, ...] = ()
    stray_shard_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShardView:
    """One process group of a replica; ``since_s`` is the age of its present state."""

    shard_id: str
    node_id: str
    rank: int
    state: ShardState
    since_s: float
    http_port: int | None = None
    gpu_indices: tuple[int, ...] = ()
    error: str = ""
    exit_code: int | None = None
    last_output: tuple[str, ...] = ()
    fetch: FetchProgress | None = None


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One running copy of a model; ``ready_s`` and ``idle_s`` are ages, absent where unknown.

    ``inflight`` is what the gateways have under way there, ``ejected_s`` how long they have left it
    alone because it makes no progress, ``ready_in_s`` when it will probably serve.
    """

    replica_id: str
    model: str
    profile: str
    engine: str
    state: ReplicaState
    age_s: float
    shards: tuple[ShardView, ...]
    want_shards: int = 1
    url: str | None = None
    pool: str = ""
    fabric: str = ""
    ready_s: float | None = None
    ready_in_s: float | None = None
    idle_s: float | None = None
    inflight: int | None = None
    ejected_s: float | None = None
    is_stale_profile: bool = False
    is_assembling: bool = False
    drain_reason: str = ""


class ModelStatus(enum.StrEnum):
    """One word for a model, the most telling first."""

    READY = "ready"
    LOADING = "loading"
    BACKOFF = "backoff"
    UNPLACED = "unplaced"
    ON_DEMAND = "on_demand"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class FailureView:
    """The last failed replica of a model, readable after that replica is gone."""

    replica_id: str
    error: str
    ago_s: float
    node_id: str = ""
    exit_code: int | None = None
    last_output: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelView:
    """One catalog entry and how much of it runs.

    ``reason`` says in one sentence why fewer run than are wanted; empty when nothing is missing.
    ``is_asked`` where requests wait for it or have used it just now, ``ready_in_s`` is when it will
    probably serve. ``stale`` replicas are of an older profile; ``roll`` says how far their
    replacement is, where somebody has asked for that.
    """

    name: str
    status: ModelStatus
    want: int
    ready: int
    starting: int
    draining: int = 0
    source: str = ""
    aliases: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    scaling: Scaling | None = None
    origin: str = "declared"
    is_simulated: bool = False
    capabilities: tuple[str, ...] = ()
    context_length: int | None = None
    description: str | None = None
    reason: str = ""
    backoff_left_s: float | None = None
    is_asked: bool = False
    ready_in_s: float | None = None
    stale: int = 0
    roll: str = ""
    last_failure: FailureView | None = None


@dataclass(frozen=True, slots=True)
class RefusalView:
    """The last time that somebody's stream was refused or ended, and why.

    ``node_id`` is who it said to be, ``common_name`` whom its certificate names; empty is unknown.
    """

    node_id: str
    common_name: str
    peer: str
    code: str
    message: str
    ago_s: float
    count: int = 1


@dataclass(frozen=True, slots=True)
class LogTail:
    """The newest lines of one log, the oldest first, and the names of all logs of the node."""

    lines: tuple[str, ...]
    sources: tuple[str, ...]
