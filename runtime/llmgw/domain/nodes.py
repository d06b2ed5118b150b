"""What a node is made of, as its agent reports it; what is not known is ``None``, never zero."""

from __future__ import annotations

import enum
import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.domain.fetch_status import FetchStatus
from llmgw.domain.work import ShardWork
from llmgw.errors import Banned, Unknown

FOREIGN_MEMORY_MIB = 512
"""More memory than this on an unallocated card is somebody else's; below it is the driver's own."""


class Liveness(enum.StrEnum):
    """How long ago a node spoke."""

    READY = "ready"
    UNREACHABLE = "unreachable"
    LOST = "lost"


class NodeTarget(enum.StrEnum):
    """What an operator wants of a node; the three exclude each other."""

    READY = "ready"
    CORDONED = "cordoned"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card; any entry in ``problems`` keeps it out of placement."""

    index: int
    uuid: str
    name: str
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    utilization_percent: int | None = None
    compute_capability: str = ""
    numa_node: int | None = None
    pci_bus_id: str = ""
    driver_version: str = ""
    cuda_version: str = ""
    nvlink_peers: tuple[int, ...] | None = None
    """Cards that it reaches over NVLink, through a switch too; ``None`` where nobody could look."""
    ecc_errors: int | None = None
    """Uncorrected, since the driver was loaded."""
    temperature_c: int | None = None
    power_watts: int | None = None
    power_limit_watts: int | None = None
    mig_instances: tuple[str, ...] = ()
    """Parts that the card is cut into; a card that is cut is no whole one any more."""
    problems: tuple[str, ...] = ()

    @property
    def gpu_class(self) -> str:
        """Cards of one class may share a tensor group."""
        return gpu_class(name=self.name, memory_total_mib=self.memory_total_mib)


@dataclass(frozen=True, slots=True)
class GpuGauges:
    """What moves on a card from beat to beat, beside its memory."""

    utilization_percent: int | None = None
    temperature_c: int | None = None
    power_watts: int | None = None


@dataclass(frozen=True, slots=True)
class Fabric:
    """A node's usable adapters on one operator-named fabric."""

    name: str
    hcas: tuple[str, ...]
    rate_gbps: int | None = None
    link_layer: str = ""
    """``InfiniBand``, or ``Ethernet`` for RoCE; empty where its adapters do not say."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Space on one filesystem that holds model directories."""

    path: str
    free_bytes: int
    total_bytes: int
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class LocalWeights:
    """A weight file or a model directory that lies on the node."""

    path: str
    size_bytes: int
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class NumaNode:
    """Processors and memory that are near each other; ``cpus`` as the kernel writes them."""

    number: int
    cpus: str = ""
    memory_total_mb: int | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """Operating system and processor."""

    os_id: str = ""
    os_version: str = ""
    os_codename: str = ""
    arch: str = ""
    cpu_flags: tuple[str, ...] = ()
    nvidia_driver: str = ""
    cpu_model: str = ""
    cpu_threads: int | None = None
    numa_nodes: tuple[NumaNode, ...] = ()


class InstallState(enum.StrEnum):
    """How far a node has come with an engine that it should have."""

    WANTED = "wanted"
    INSTALLING = "installing"
    READY = "ready"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class EngineInstall:
    """One engine that was installed on a node, or should be; ``detail`` is for people.

    That is the step under way, the version that the program itself tells, or why it failed.
    """

    engine: str
    version: str
    variant: str
    state: InstallState
    detail: str = ""
    warning: str = ""
    """What is wrong with the machine for it, though it runs."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """All that a node says about itself when it registers; heartbeats replace parts of it."""

    node_id: str
    hostname: str = ""
    mgmt_addr: str = ""
    agent_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[Gpu, ...] = ()
    fabrics: tuple[Fabric, ...] = ()
    fabric_problems: tuple[str, ...] = ()
    """Why declared fabrics, or adapters of them, are not among ``fabrics``."""
    warnings: tuple[str, ...] = ()
    """What an operator should know of the machine, though nothing is kept from it for that."""
    host: Host = Host()
    memory_total_mb: int | None = None
    storage: tuple[Storage, ...] = ()
    weights: tuple[LocalWeights, ...] = ()
    engine_versions: Mapping[str, str] = field(default_factory=dict)
    engines_probed: bool = False
    engine_installs: tuple[EngineInstall, ...] = ()
    port_range: tuple[int, int] | None = None
    heartbeat_s: float | None = None
    """How often its agent means to speak."""
    launch_modes: Mapping[str, str] = field(default_factory=dict)
    """How ranks on several nodes meet, by engine; one that is left out has one way or told none."""
    fetches: tuple[FetchStatus, ...] = ()
    """Downloads under way, and those that failed since its agent began."""


@dataclass(frozen=True, slots=True)
class HeartbeatFacts:
    """What a node says between two registrations.

    ``None`` and an empty collection differ only where both are possible: ``None`` was not sent, so
    the earlier value stands; an empty ``weights``, ``gpus`` or ``fabrics`` is the truth. Empty
    ``gpu_memory_used_mib``, ``gpu_gauges``, ``new_problems`` and ``storage`` say nothing.
    ``Facts.refresh`` fills everything it read; the agent's session drops what has not changed
    before it sends.
    """

    gpu_memory_used_mib: Mapping[int, int] = field(default_factory=dict)
    """By card index; a card that could not be read is left out."""
    gpu_gauges: Mapping[int, GpuGauges] = field(default_factory=dict)
    """By card index; a card that could not be read is left out."""
    gpus: tuple[Gpu, ...] | None = None
    fabrics: tuple[Fabric, ...] | None = None
    fabric_problems: tuple[str, ...] = ()
    """Meant only together with ``fabrics``."""
    warnings: tuple[str, ...] | None = None
    new_problems: tuple[str, ...] = ()
    storage: tuple[Storage, ...] = ()
    memory_total_mb: int | None = None
    weights: tuple[LocalWeights, ...] | None = None
    engine_versions: Mapping[str, str] | None = None
    engine_installs: tuple[EngineInstall, ...] | None = None
    fetches: tuple[FetchStatus, ...] | None = None
    shard_work: tuple[ShardWork, ...] = ()
    """Of each live shard whose work could be measured; one that is left out says nothing."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the control plane knows it: its facts, when it spoke, and an operator's flags."""

    facts: NodeFacts
    last_seen_at: float
    liveness: Liveness = Liveness.READY
    is_connected: bool = True
    disconnected_at: float | None = None
    problems: tuple[str, ...] = ()
    is_cordoned: bool = False
    is_draining: bool = False
    flag_reason: str = ""
    flag_actor: str = ""
    """Who said so, by its own word; empty where nobody knows."""

    @property
    def node_id(self) -> str:
        """The node's name everywhere."""
        return self.facts.node_id

    @property
    def state(self) -> str:
        """One word for people: lost > unreachable > draining > cordoned > ready."""
        if self.liveness is not Liveness.READY:
            return str(self.liveness)
        if self.is_draining:
            return "draining"
        return "cordoned" if self.is_cordoned else "ready"


_TOKENS = re.compile(r"[^a-z0-9]+")
_NOT_MODELS = frozenset({"sxm4", "sxm5", "pcie"})


def never_registered(node_id: str) -> Unknown:
    """The error for a name that no agent has ever come with."""
    return Unknown(
        f"no node {node_id!r} has ever registered here; 'llmgw ctl nodes' lists those that have"
    )


def not_let_in(node_id: str) -> Banned:
    """The error for a node that operators keep out."""
    return Banned(f"node {node_id!r} is banned here; 'llmgw ctl unban {node_id}' lets it in again")


@functools.lru_cache(maxsize=1024)
def gpu_class(*, name: str, memory_total_mib: int | None) -> str:
    """The class of a card: ``NVIDIA H100 80GB HBM3`` with 81559 MiB is ``h100-80g``.

    A card that shares the machine's memory tells none of its own, and is ``gb10`` alone.
    """
    stripped = name.lower().strip().removeprefix("nvidia ").removeprefix("tesla ")
    tokens = [t for t in _TOKENS.split(stripped) if t]
    model = next(
        (t for t in tokens if _is_model(t)),
        "-".join(tokens) or "unknown",
    )
    if memory_total_mib is None:
        return model
    return f"{model}-{math.floor(memory_total_mib / 1024 + 0.5)}g"


def _is_model(token: str) -> bool:
    has_digit = any(c.isdigit() for c in token)
    return has_digit and not token.endswith("gb") and token not in _NOT_MODELS
