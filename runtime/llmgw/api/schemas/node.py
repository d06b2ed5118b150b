"""Nodes as the admin API shows them; an absent figure is ``null``, never 0."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from llmgw.api.schemas.from_view import FromView
from llmgw.domain.fetch_status import FetchState
from llmgw.domain.nodes import InstallState, NodeTarget
from llmgw.domain.views import GpuUse


class GpuOut(FromView):
    """One card, what it does and for whom."""

    index: int
    gpu_class: str
    use: GpuUse
    name: str
    uuid: str
    replica_id: str | None = Field(description="The replica that holds the card.")
    memory_total_mib: int | None
    memory_used_mib: int | None
    utilization_percent: int | None
    temperature_c: int | None
    power_watts: int | None
    problems: tuple[str, ...] = Field(description="Any entry keeps the card out of placement.")


class FabricOut(FromView):
    """A node's usable adapters on one fabric."""

    name: str
    hcas: tuple[str, ...]
    rate_gbps: int | None
    link_layer: str = Field(description="InfiniBand, or Ethernet for RoCE; empty: not said.")


class StorageOut(FromView):
    """Space on one filesystem that holds model directories."""

    path: str
    free_bytes: int
    total_bytes: int
    is_shared: bool = Field(description="The same space is seen by other nodes too.")


class WeightsOut(FromView):
    """A weight file or a model directory that lies on the node."""

    path: str
    size_bytes: int
    is_shared: bool


class NumaNodeOut(FromView):
    """Processors and memory that are near each other."""

    number: int
    cpus: str = Field(description="As the kernel writes them, such as 0-31,64-95.")
    memory_total_mb: int | None


class HostOut(FromView):
    """Operating system and processor; empty where the node did not say."""

    os_id: str
    os_version: str
    os_codename: str
    arch: str
    cpu_flags: tuple[str, ...]
    nvidia_driver: str
    cpu_model: str
    cpu_threads: int | None
    numa_nodes: tuple[NumaNodeOut, ...]


class EngineInstallOut(FromView):
    """One engine that was installed on the node, or should be, and how it stands."""

    engine: str
    version: str
    variant: str
    state: InstallState
    detail: str = Field(description="The step under way, the program's own version, or the reason.")
    warning: str = Field(description="What is wrong with the machine for it, though it runs.")


class FetchOut(FromView):
    """A download that is under way, or that failed since the node's agent began."""

    source: str = Field(description="Without secrets.")
    name: str = Field(description="Its name in the folder of downloads.")
    state: FetchState
    done_bytes: int
    total_bytes: int | None = Field(description="Null while the source gave no length.")
    bytes_per_s: float | None
    eta_s: float | None = Field(description="Seconds that are left; null when unknown.")
    error: str
    is_ordered: bool = Field(description="Somebody wants it ahead of a start.")


class NodeOut(FromView):
    """One node: what it has, what of that is promised, and since when it is silent."""

    node_id: str
    state: str = Field(description="banned, lost, unreachable, draining, cordoned or ready.")
    last_seen_s: float = Field(description="Seconds since it last spoke.")
    is_connected: bool
    target: NodeTarget = Field(
        description="An operator's last word; state shows it unless the node is silent or banned."
    )
    flag_reason: str = Field(description="Why an operator cordoned or drains it.")
    flag_actor: str = Field(description="Who did, by its own word; empty where nobody knows.")
    is_banned: bool = Field(description="Its agent is not let in, whatever certificate it shows.")
    hostname: str
    mgmt_addr: str
    agent_version: str
    labels: dict[str, str]
    host: HostOut
    gpus: tuple[GpuOut, ...]
    fabrics: tuple[FabricOut, ...]
    fabric_problems: tuple[str, ...] = Field(
        description="Why declared fabrics, or adapters of them, are not among the fabrics."
    )
    warnings: tuple[str, ...] = Field(
        description="What to know of the machine; nothing is kept from it for that."
    )
    memory_total_mb: int | None
    memory_claimed_mb: int = Field(description="Promised to replicas by their profiles.")
    memory_available_mb: int | None
    storage: tuple[StorageOut, ...]
    weights: tuple[WeightsOut, ...]
    engine_versions: dict[str, str] | None = Field(
        description="Version by engine; null when the node never looked for engines."
    )
    engine_installs: tuple[EngineInstallOut, ...] = Field(
        description="How what `llmgw engine install` has done on the node stands."
    )
    fetches: tuple[FetchOut, ...] = Field(
        description="Downloads under way, for a start or ahead of one, and those that failed."
    )
    replica_ids: tuple[str, ...]
    stray_shard_ids: tuple[str, ...] = Field(
        description="Engines that were told to stop and have not confirmed it."
    )


class NodeStateIn(BaseModel):
    """What an operator wants of a node; the word ``reason`` is shown to everybody who looks."""

    model_config = ConfigDict(extra="forbid")

    target: NodeTarget
    reason: str = Field(default="", max_length=256)


class NodeBanIn(BaseModel):
    """Whether the agent of a node is to be kept out."""

    model_config = ConfigDict(extra="forbid")

    is_banned: bool


class NodesOut(FromView):
    """Nodes in the order of their ids."""

    nodes: tuple[NodeOut, ...]
