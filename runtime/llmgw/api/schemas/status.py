"""The one-page status as the admin API shows it."""

from __future__ import annotations

from pydantic import Field

from llmgw.api.schemas.from_view import FromView


class BrakeOut(FromView):
    """The brake on a mass loss: nobody is given up for silence, and nothing is placed."""

    since_s: float
    ends_in_s: float = Field(description="Unless half of its nodes are back before.")
    node_ids: tuple[str, ...] = Field(description="Nodes that fell silent together.")


class GatewayOut(FromView):
    """A gateway on another host."""

    name: str
    peer: str
    version: str
    is_connected: bool = Field(description="It watches, and has told lately what it sees.")
    is_current: bool = Field(description="It serves the table that was published last.")
    heard_s: float = Field(description="Since it last told what it sees.")
    term: int | None
    number: int | None = Field(description="Of the table that all its workers serve.")
    workers: int | None


class ControlOut(FromView):
    """The control plane itself."""

    version: str
    uptime_s: float
    is_leader: bool
    term: int
    settling_left_s: float | None = Field(description="Until then nothing new is placed.")
    brake: BrakeOut | None = Field(description="Null while it is off.")
    routes_number: int = Field(description="Rises with each change of what the gateway routes to.")
    skipped_models: dict[str, str] = Field(
        description="Stored models that were left out of the catalog, by name, and why."
    )
    gateways: tuple[GatewayOut, ...] = Field(description="Those on other hosts.")


class ClassTotalsOut(FromView):
    """All cards of one class."""

    gpu_class: str
    used: int
    free: int
    unhealthy: int


class FabricTotalsOut(FromView):
    """The nodes of one fabric, and those of them of which every card is free."""

    fabric: str
    nodes: int
    whole_free_nodes: int


class UnplacedOut(FromView):
    """A model of which fewer run than are wanted, and why."""

    model: str
    reason: str


class IdleReplicaOut(FromView):
    """A ready replica that nobody has used for a while."""

    replica_id: str
    model: str
    idle_s: float


class StatusOut(FromView):
    """The fleet on one page; every figure is a sum over nodes, models and replicas."""

    control: ControlOut
    nodes_by_state: dict[str, int]
    models_by_status: dict[str, int]
    replicas_by_state: dict[str, int]
    gpu_classes: tuple[ClassTotalsOut, ...]
    fabrics: tuple[FabricTotalsOut, ...]
    unplaced: tuple[UnplacedOut, ...]
    idle: tuple[IdleReplicaOut, ...]
