"""What is shown of the control plane itself, and the page that sums the fleet up.

One flat frozen value a thing, as in ``views``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LeadView:
    """How a control plane stands among those on its store.

    ``standing`` is ``leads``, ``lapsed`` (it led, the store does not answer, and it changes
    nothing) or ``standby``; ``address`` is the admin address of the leader, empty where nobody
    knows one.
    """

    standing: str
    term: int = 0
    address: str = ""

    @property
    def is_leader(self) -> bool:
        """Whether it may be told anything."""
        return self.standing == "leads"


@dataclass(frozen=True, slots=True)
class GatewayView:
    """A gateway on another host: whether it is heard, and the table that all its workers serve.

    What it has not told is absent; ``is_current`` where its table is the one published last.
    """

    name: str
    peer: str
    version: str
    is_connected: bool
    is_current: bool
    heard_s: float
    term: int | None = None
    number: int | None = None
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class BrakeView:
    """The brake on a mass loss, while it is on."""

    since_s: float
    ends_in_s: float
    """Unless half of its nodes are back before."""
    node_ids: tuple[str, ...]
    """Those that fell silent together."""


@dataclass(frozen=True, slots=True)
class ControlView:
    """The control plane itself: who leads, for how long it has run, and whether it places yet."""

    version: str
    uptime_s: float
    is_leader: bool
    term: int = 0
    settling_left_s: float | None = None
    routes_number: int = 0
    skipped_models: Mapping[str, str] = field(default_factory=dict)
    """Stored models that were left out of the catalog, by name, and why."""
    gateways: tuple[GatewayView, ...] = ()
    """Those on other hosts."""
    brake: BrakeView | None = None
    """While many nodes are silent at once."""


@dataclass(frozen=True, slots=True)
class ClassTotals:
    """All cards of one class."""

    gpu_class: str
    used: int
    free: int
    unhealthy: int


@dataclass(frozen=True, slots=True)
class FabricTotals:
    """The nodes of one fabric, and those of them of which every card is free."""

    fabric: str
    nodes: int
    whole_free_nodes: int


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A model of which fewer run than are wanted, and why."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class IdleReplica:
    """A ready replica that nobody has used for a while."""

    replica_id: str
    model: str
    idle_s: float


@dataclass(frozen=True, slots=True)
class StatusView:
    """The fleet on one page; every figure is a sum over the node, model and replica views."""

    control: ControlView
    nodes_by_state: Mapping[str, int]
    models_by_status: Mapping[str, int]
    replicas_by_state: Mapping[str, int]
    gpu_classes: tuple[ClassTotals, ...]
    fabrics: tuple[FabricTotals, ...]
    unplaced: tuple[Unplaced, ...]
    idle: tuple[IdleReplica, ...]
