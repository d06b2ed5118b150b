"""Whether one node can take one shard of a profile: the checks, in the order a person would ask.

The first check that fails is the node's reason. Nothing else in the product computes eligibility.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from llmgw.control.inventory import claims as claiming
from llmgw.control.inventory.claims import Claims
from llmgw.control.placement import reasons, tcp_ports
from llmgw.domain import weights
from llmgw.domain.catalog import Profile
from llmgw.domain.nodes import Gpu, Liveness, Node, Storage

UNPROBED_ENGINES = frozenset({"sim"})
"""Engines that come with the agent itself, so that no node needs to report them."""


@dataclass(frozen=True, slots=True)
class Site:
    """One node as placement sees it: what it is, what it owes, and which cards are free."""

    node: Node
    claims: Claims
    free: tuple[Gpu, ...] = ()

    @property
    def node_id(self) -> str:
        """The node's name."""
        return self.node.node_id

    def free_of(self, gpu_class: str) -> tuple[Gpu, ...]:
        """Its free cards of one class."""
        return tuple(gpu for gpu in self.free if gpu.gpu_class == gpu_class)


@dataclass(frozen=True, slots=True)
class Need:
    """What one profile of a model asks of each of its nodes."""

    model: str
    source: str
    profile: Profile
    now: float
    port_range: tuple[int, int]
    avoided: frozenset[str] = field(default_factory=frozenset)
    """Nodes where the model failed lately; a last choice, never a refusal."""

    @property
    def is_multi_node(self) -> bool:
        """Whether its shards must meet over a fabric."""
        return self.profile.nodes > 1


@dataclass(frozen=True, slots=True, order=True)
class Meeting:
    """What the nodes of one replica must have in common to find each other."""

    fabric: str
    launch_mode: str = ""
    """Empty for an engine that has one way to meet, and where no node has said."""

    def __str__(self) -> str:
        """As a reason names it."""
        return f"{self.fabric} by {self.launch_mode}" if self.launch_mode else self.fabric


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node does not take a shard: the check that failed, and a sentence with its figures."""

    node_id: str
    check: str
    reason: str


def site(node: Node, claims: Claims) -> Site:
    """A node with its free cards: healthy, held by nobody, and used by no stranger."""
    return Site(
        node=node,
        claims=claims,
        free=tuple(
            gpu
            for gpu in node.facts.gpus
            if gpu.index not in claims.gpus and not claiming.problems(gpu, claims)
        ),
    )


def refusal(where: Site, need: Need) -> Refusal | None:
    """The first check that the node fails, or nothing when it fits."""
    for name, check in CHECKS:
        reason = check(where, need)
        if reason is not None:
            return Refusal(node_id=where.node_id, check=name, reason=reason)
    return None


def _liveness(where: Site, need: Need) -> str | None:
    node = where.node
    if node.liveness is Liveness.READY and node.is_connected:
        return None
    return reasons.silent(node, now=need.now)


def _flags(where: Site, _need: Need) -> str | None:
    node = where.node
    return reasons.flagged(node) if node.is_cordoned or node.is_draining else None


def _address(where: Site, _need: Need) -> str | None:
    return None if where.node.facts.mgmt_addr else reasons.NO_ADDRESS


def _selector(where: Site, need: Need) -> str | None:
    labels = where.node.facts.labels
    for key, wanted in need.profile.node_selector.items():
        if labels.get(key) != wanted:
            return reasons.label(key, wanted=wanted, found=labels.get(key))
    return None


def _engine(where: Site, need: Need) -> str | None:
    facts, engine = where.node.facts, need.profile.engine
    if engine in facts.engine_versions or engine in UNPROBED_ENGINES:
        return None
    if not facts.engines_probed and not facts.engine_versions:
        return None
    install = next((one for one in facts.engine_installs if one.engine == engine), None)
    return reasons.engine(engine, present=facts.engine_versions, install=install)


def _memory(where: Site, need: Need) -> str | None:
    total_mb, claimed_mb = where.node.facts.memory_total_mb, where.claims.memory_mb
    needed_mb = need.profile.min_memory_gb * claiming.MIB_PER_GB
    if not needed_mb or total_mb is None or claimed_mb + needed_mb <= total_mb:
        return None
    return reasons.memory(total_mb=total_mb, promised_mb=claimed_mb, needed_mb=needed_mb)


def _disk(where: Site, need: Need) -> str | None:
    needed_gb, disk = need.profile.min_disk_gb, weights_disk(where.node.facts.storage)
    if not needed_gb or disk is None or holds_weights(where, need):
        return None
    free_gb = disk.free_bytes / claiming.BYTES_PER_GB
    if where.claims.disk_gb + needed_gb <= free_gb:
        return None
    return reasons.disk(disk, promised_gb=where.claims.disk_gb, needed_gb=needed_gb)


def _gpu_class(where: Site, need: Need) -> str | None:
    wanted = need.profile.gpu_class
    if not wanted or any(gpu.gpu_class == wanted for gpu in where.node.facts.gpus):
        return None
    return reasons.gpu_class(wanted, gpus=where.node.facts.gpus)


def _gpus(where: Site, need: Need) -> str | None:
    profile = need.profile
    if not profile.gpu_class or len(where.free_of(profile.gpu_class)) >= profile.cards_per_node:
        return None
    return reasons.gpus(where.node, where.claims, profile=profile)


def _fabric(where: Site, need: Need) -> str | None:
    if not need.is_multi_node or fabric_names(where):
        return None
    return reasons.no_fabric(where.node.facts.fabric_problems)


def _ports(where: Site, need: Need) -> str | None:
    """One to serve on; with several nodes enough for any to lead and all on one machine."""
    port_range, profile = where.node.facts.port_range or need.port_range, need.profile
    taken, row = where.claims.taken_ports, profile.meeting_ports
    serving = tcp_ports.lowest_free(port_range, taken=taken, how_many=profile.nodes)
    meeting = tcp_ports.lowest_row(port_range, taken=taken.union(serving), how_many=row)
    if len(serving) == profile.nodes and len(meeting) == row:
        return None
    needed = profile.nodes + row
    return reasons.ports(port_range, stray=where.claims.stray_ports, needed=needed, in_a_row=row)


_Check: TypeAlias = Callable[[Site, Need], str | None]

CHECKS: tuple[tuple[str, _Check], ...] = (
    ("liveness", _liveness),
    ("flags", _flags),
    ("address", _address),
    ("selector", _selector),
    ("engine", _engine),
    ("memory", _memory),
    ("disk", _disk),
    ("gpu_class", _gpu_class),
    ("gpus", _gpus),
    ("fabric", _fabric),
    ("ports", _ports),
)
"""Name and test, cheapest and most human first."""

FABRIC_SIZE = "fabric_size"
"""The check of a node that fits, on a fabric with too few like it."""


def holds_weights(where: Site, need: Need) -> bool:
    """Whether the node has the model's weights already; not asked ranks as has none."""
    return weights.holds(need.source, (w.path for w in where.node.facts.weights))


def fabric_names(where: Site) -> Iterable[str]:
    """The fabrics over which a shard here can meet others."""
    return [fabric.name for fabric in where.node.facts.fabrics if fabric.hcas]


def launch_mode(where: Site, need: Need) -> str:
    """How the profile's engine meets others here; empty: it has one way, or the node has not said.

    A node that has not said is kept from nobody.
    """
    return where.node.facts.launch_modes.get(need.profile.engine, "")


def weights_disk(storage: tuple[Storage, ...]) -> Storage | None:
    """The filesystem that a download would land on: the largest of the node's own.

    Never a sum, for two disks of 24 are not one of 48; shared space counts only where there is no
    other. Nothing reported is unknown, not full.
    """
    own = [s for s in storage if not s.is_shared] or list(storage)
    return max(own, key=lambda s: (s.total_bytes, s.path), default=None)
