"""A fleet that stands still: the ports of the admin API over views that a test chose."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmgw.api.ports import Control
from llmgw.control.catalog.desk import CatalogDesk
from llmgw.control.catalog.keeping import CatalogKeeper
from llmgw.control.catalog.source_check import SourceCheck
from llmgw.domain import summaries
from llmgw.domain.actors import Actor
from llmgw.domain.catalog import Model, Scaling, unknown_model
from llmgw.domain.decided import DecidedAction, DecidedPass
from llmgw.domain.deeds import Deed
from llmgw.domain.nodes import Fabric, Host, LocalWeights, NodeTarget, Storage, never_registered
from llmgw.domain.outlooks import ActionView, ModelOutlook, OutlookView, PassView, PlanView
from llmgw.domain.placement_views import (
    ChosenPlacement,
    ChosenShard,
    GateView,
    NodeVerdict,
    PlacementView,
    ProfileVerdict,
)
from llmgw.domain.questions import Supposed, WhatIf
from llmgw.domain.replicas import FetchProgress, ReplicaState, ShardState
from llmgw.domain.status_views import ControlView, LeadView, StatusView
from llmgw.domain.stored import AuditEntry, AuditFilter, Capacity
from llmgw.domain.views import (
    FailureView,
    GpuUse,
    GpuView,
    LogTail,
    ModelStatus,
    ModelView,
    NodeView,
    RefusalView,
    ReplicaView,
    ShardView,
)
from llmgw.errors import Conflict, LlmgwError, NotConnected, Unknown
from llmgw.kit.clock import SystemClock
from llmgw.serve.measured import Measured
from tests.fakes.stored_models import StoredModelsInMemory
from tests.fakes.usage import FakeUsageBooks

GIB = 1024**3

PLACE = ActionView(
    kind="place",
    reason="fewer run than are wanted",
    model="big",
    profile="h100",
    replica_id="big-1a2b3c4d",
    node_ids=("gpu01", "gpu02"),
)
EXPIRE = ActionView(kind="expire_node", reason="silent for 61 s: lost", node_ids=("cpu01",))
PLAN = PlanView(
    actions=(EXPIRE, PLACE), waits={"small": "profile cpu: closest is gpu01: no engine"}
)
OUTLOOK = OutlookView(
    passes=(PassView(after_s=0.0, actions=(PLACE,)), PassView(after_s=1.0, actions=(EXPIRE,))),
    models=(ModelOutlook(model="big", want=2, before=1, after=2),),
)
SHORT_OUTLOOK = OutlookView(
    passes=(),
    models=(ModelOutlook("small", want=1, before=1, after=0, reason="no node has a GPU"),),
)

GPU_NODE = NodeView(
    node_id="gpu01",
    state="ready",
    last_seen_s=2.5,
    hostname="gpu01",
    mgmt_addr="10.0.0.11",
    agent_version="0.1.0",
    labels={"rack": "a"},
    host=Host(os_id="debian", arch="x86_64"),
    gpus=(
        GpuView(index=0, gpu_class="h100-80g", use=GpuUse.USED, replica_id="big-1a2b3c4d"),
        GpuView(index=1, gpu_class="h100-80g", use=GpuUse.FREE, memory_total_mib=81559),
        GpuView(index=2, gpu_class="h100-80g", use=GpuUse.UNHEALTHY, problems=("Xid 79 fell off",)),
    ),
    fabrics=(Fabric(name="ib-a", hcas=("mlx5_0",), rate_gbps=400),),
    memory_total_mb=512 * 1024,
    memory_claimed_mb=128 * 1024,
    memory_available_mb=384 * 1024,
    storage=(
        Storage(path="/models", free_bytes=100 * GIB, total_bytes=400 * GIB),
        Storage(path="/nfs", free_bytes=900 * GIB, total_bytes=999 * GIB, is_shared=True),
    ),
    weights=(LocalWeights(path="/models/big.gguf", size_bytes=40 * GIB),),
    engine_versions={"vllm": "0.11.0"},
    replica_ids=("big-1a2b3c4d",),
)
"""A node of which everything is known, with one bad card."""

SILENT_NODE = NodeView(
    node_id="cpu01",
    state="unreachable",
    last_seen_s=252.0,
    is_connected=False,
    replica_ids=("small-5e6f7a8b",),
    stray_shard_ids=("old-00000000.0",),
)
"""A node of an agent that told almost nothing."""

READY_REPLICA = ReplicaView(
    replica_id="big-1a2b3c4d",
    model="big",
    profile="gpu",
    engine="vllm",
    state=ReplicaState.READY,
    age_s=7500.0,
    shards=(
        ShardView(
            shard_id="big-1a2b3c4d.0",
            node_id="gpu01",
            rank=0,
            state=ShardState.READY,
            since_s=7400.0,
            http_port=20000,
            gpu_indices=(0,),
        ),
    ),
    url="http://10.0.0.11:20000",
    pool="ib-a/h100-80g",
    fabric="ib-a",
    ready_s=7400.0,
    idle_s=300.0,
    is_stale_profile=True,
)

FETCHING_REPLICA = ReplicaView(
    replica_id="small-5e6f7a8b",
    model="small",
    profile="cpu",
    engine="llamacpp",
    state=ReplicaState.STARTING,
    age_s=12.0,
    shards=(
        ShardView(
            shard_id="small-5e6f7a8b.0",
            node_id="cpu01",
            rank=0,
            state=ShardState.PENDING,
            since_s=12.0,
            fetch=FetchProgress(
                source="https://models.example/small.gguf?x=1",
                done_bytes=3 * GIB,
                total_bytes=4 * GIB,
            ),
        ),
    ),
)

BIG = ModelView(
    name="big",
    status=ModelStatus.READY,
    want=1,
    ready=1,
    starting=0,
    source="org/big",
    aliases=("large",),
    profiles=("gpu",),
    scaling=Scaling(min=1, max=1),
    capabilities=("tools",),
    context_length=8192,
    description="for long answers",
)
SMALL = ModelView(
    name="small",
    status=ModelStatus.LOADING,
    want=1,
    ready=0,
    starting=1,
    profiles=("cpu",),
    scaling=Scaling(min=1, max=1),
)
HUGE = ModelView(
    name="huge",
    status=ModelStatus.UNPLACED,
    want=2,
    ready=0,
    starting=0,
    profiles=("gpu", "cpu"),
    scaling=Scaling(min=2, max=2),
    reason="no node has 8 free cards of class h100-80g",
    last_failure=FailureView(
        replica_id="huge-99999999",
        error="the engine ended while it loaded",
        ago_s=65.0,
        node_id="gpu01",
        exit_code=1,
        last_output=("CUDA out of memory",),
    ),
)
ASLEEP = ModelView(
    name="asleep",
    status=ModelStatus.ON_DEMAND,
    want=0,
    ready=0,
    starting=0,
    scaling=Scaling(min=0, max=1),
    is_simulated=True,
)
OFF = ModelView(name="off", status=ModelStatus.OFF, want=0, ready=0, starting=0)

NOWHERE = PlacementView(
    model="huge",
    want=2,
    ready=0,
    starting=0,
    gates=(
        GateView(name="leader", is_open=True),
        GateView(name="settled", is_open=False, detail="24 s left"),
    ),
    profiles=(
        ProfileVerdict(
            profile="gpu",
            engine="vllm",
            is_fit=False,
            gpu_class="h100-80g",
            priority=10,
            summary="0 of 2 nodes qualify",
            nodes=(
                NodeVerdict(node_id="cpu01", is_fit=False, check="gpu_class", reason="no GPU"),
                NodeVerdict(node_id="gpu01", is_fit=False, check="gpus", reason="wants 8, free 1"),
            ),
        ),
    ),
)
"""A model that fits on no node."""

CHOSEN = PlacementView(
    model="small",
    want=1,
    ready=0,
    starting=0,
    gates=(GateView(name="backoff", is_open=False, detail="9 s left"),),
    profiles=(
        ProfileVerdict(
            profile="cpu",
            engine="llamacpp",
            is_fit=True,
            nodes=(NodeVerdict(node_id="cpu01", is_fit=True),),
        ),
    ),
    chosen=ChosenPlacement(
        profile="cpu", shards=(ChosenShard(node_id="cpu01", rank=0, http_port=20000),)
    ),
)
"""A model that would be placed, were it not for a gate."""

CONTROL = ControlView(version="0.1.0", uptime_s=7501.0, is_leader=True, term=3)


@dataclass
class FakeFleet:
    """Fits ``FleetViews``; a test changes its lists as it goes."""

    node_views: Sequence[NodeView] = (SILENT_NODE, GPU_NODE)
    model_views: Sequence[ModelView] = (ASLEEP, BIG, HUGE, OFF, SMALL)
    replica_views: Sequence[ReplicaView] = (READY_REPLICA, FETCHING_REPLICA)
    placements: Mapping[str, PlacementView] = field(
        default_factory=lambda: {"huge": NOWHERE, "small": CHOSEN}
    )
    control: ControlView = CONTROL
    rolled: list[tuple[str, bool]] = field(default_factory=list)
    """Which models were to follow their profiles, and whether that may interrupt them."""
    retried: list[str] = field(default_factory=list)
    looks: int = 0
    """How often the replicas were asked for."""

    def lift_brake(self) -> bool:
        was_on = self.control.brake is not None
        self.control = dataclasses.replace(self.control, brake=None)
        return was_on

    def status(self) -> StatusView:
        return summaries.summarise(
            control=self.control,
            nodes=self.node_views,
            models=self.model_views,
            replicas=self.replica_views,
        )

    def nodes(self) -> Sequence[NodeView]:
        return self.node_views

    def models(self) -> Sequence[ModelView]:
        return self.model_views

    def replicas(self) -> Sequence[ReplicaView]:
        self.looks += 1
        return self.replica_views

    def explain(self, model: str) -> PlacementView:
        for view in self.model_views:
            if model == view.name or model in view.aliases:
                return self.placements.get(view.name, _unexplained(view))
        raise unknown_model(model)

    async def set_node_state(
        self, node_id: str, *, target: NodeTarget, reason: str, actor: str = ""
    ) -> NodeView:
        for view in self.node_views:
            if view.node_id == node_id:
                flagged = dataclasses.replace(
                    view,
                    state=str(target),
                    target=target,
                    flag_reason=reason,
                    flag_actor=actor,
                )
                self.node_views = [flagged if v is view else v for v in self.node_views]
                return flagged
        raise never_registered(node_id)

    async def ban_node(self, node_id: str, *, is_banned: bool) -> NodeView:
        for view in self.node_views:
            if view.node_id == node_id:
                banned = dataclasses.replace(view, is_banned=is_banned)
                self.node_views = [banned if v is view else v for v in self.node_views]
                return banned
        raise never_registered(node_id)

    async def forget_node(self, node_id: str) -> None:
        for view in self.node_views:
            if view.node_id == node_id and view.is_connected:
                raise Conflict(f"{node_id} is connected: keep it out with 'llmgw ctl ban'")
            if view.node_id == node_id:
                self.node_views = [v for v in self.node_views if v is not view]
                return
        raise never_registered(node_id)

    async def roll(self, model: str, *, may_interrupt: bool, actor: str = "") -> ModelView:
        self.rolled.append((model, may_interrupt))
        return self._shown_rolling(model)

    def _shown_rolling(self, model: str) -> ModelView:
        for view in self.model_views:
            if model == view.name or model in view.aliases:
                return dataclasses.replace(view, stale=2, roll="2 left to replace")
        raise unknown_model(model)

    def retry(self, model: str) -> ModelView:
        self.retried.append(model)
        return self._shown_rolling(model)

    def become_ready(self, name: str) -> None:
        """The model's replicas come up."""
        self.model_views = [
            dataclasses.replace(m, status=ModelStatus.READY, ready=m.want, starting=0)
            if m.name == name
            else m
            for m in self.model_views
        ]


def _unexplained(model: ModelView) -> PlacementView:
    return PlacementView(
        model=model.name,
        want=model.want,
        ready=model.ready,
        starting=model.starting,
        gates=(),
        profiles=(),
    )


class FakeNodeLogs:
    """Fits ``NodeLogs``: one connected node with the log of its agent."""

    async def logs(self, *, node_id: str, source: str, lines: int) -> LogTail:
        if node_id != "gpu01":
            raise NotConnected(f"node {node_id} has no connection to this control plane")
        if source != "agent":
            raise Unknown(f"node {node_id} has no log {source!r}")
        kept = ("one", "two\x1b[31m", "three")
        return LogTail(lines=kept[-lines:], sources=("agent", "big-1a2b3c4d.0"))


class FakeChecks:
    """Fits ``EngineChecks``: on one node a vLLM whose Ray is too old."""

    async def check_engine(self, *, node_id: str, engine: str) -> Sequence[Deed]:
        if engine != "vllm":
            return (Deed(engine, is_done=True, detail="5 options"),)
        return (
            Deed("vllm serve --help=all", is_done=True, detail="10 options"),
            Deed("ray start --help", is_done=False, detail="it has no option --head"),
        )


@dataclass
class FakeRefusals:
    """Fits ``Refusals``: one node with another one's certificate, and one without any."""

    views: Sequence[RefusalView] = (
        RefusalView(
            node_id="node03",
            common_name="node02",
            peer="ipv4:10.0.0.3:41000",
            code="identity_mismatch",
            message="certificate CN 'node02' does not match node id 'node03'",
            ago_s=4.0,
            count=3,
        ),
        RefusalView(
            node_id="node04",
            common_name="",
            peer="ipv4:10.0.0.4:41000",
            code="unauthenticated",
            message="node 'node04' showed no client certificate",
            ago_s=90.0,
        ),
    )

    def refusals(self) -> Sequence[RefusalView]:
        return self.views


@dataclass
class FakeDownloads:
    """Fits ``NodeDownloads``; what is in ``kept`` stays, with the reason."""

    kept: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    error: LlmgwError | None = None

    async def remove_weights(self, node_id: str, paths: Sequence[str]) -> tuple[Deed, ...]:
        self.asked.append((node_id, tuple(paths)))
        if self.error is not None:
            raise self.error
        return tuple(
            Deed(p, is_done=p not in self.kept, detail=self.kept.get(p, "")) for p in paths
        )

    async def fetch_weights(
        self, node_id: str, sources: Sequence[str], *, is_cancelled: bool
    ) -> tuple[Deed, ...]:
        self.asked.append((node_id, ("call off" if is_cancelled else "fetch", *sources)))
        if self.error is not None:
            raise self.error
        return tuple(
            Deed(s, is_done=node_id not in self.kept, detail=self.kept.get(node_id, ""))
            for s in sources
        )


@dataclass
class FakePlans:
    """Fits ``Plans``; a node or model called ``nosuch`` is not known."""

    asked: list[WhatIf] = field(default_factory=list)

    async def plan(self) -> PlanView:
        return PLAN

    async def what_if(self, question: WhatIf) -> OutlookView:
        self.asked.append(question)
        if question.name == "nosuch":
            raise Unknown("no 'nosuch' has ever registered here")
        is_short = question.supposed is Supposed.LOSE
        return SHORT_OUTLOOK if is_short else OUTLOOK


@dataclass
class FakeBundles:
    """Fits ``Bundles``."""

    async def support_bundle(self, *, passes: int) -> bytes:
        return f"bundle of {passes}".encode()


@dataclass
class FakeLead:
    """Fits ``Lead``; leads unless told otherwise."""

    view: LeadView = field(default_factory=lambda: LeadView("leads", term=7))

    def lead(self) -> LeadView:
        return self.view


@dataclass
class FakeAudit:
    """Fits ``Audit``; keeps in memory what it is told."""

    kept: list[AuditEntry] = field(default_factory=list)

    async def note(self, actor: Actor, **told: Any) -> None:
        number = len(self.kept) + 1
        self.kept.append(
            AuditEntry(
                at=float(number),
                actor=actor.name,
                origin=actor.origin,
                request_id=actor.request_id,
                entry_id=number,
                **told,
            )
        )

    async def page(self, wanted: AuditFilter, *, limit: int) -> Sequence[AuditEntry]:
        found = [
            one
            for one in reversed(self.kept)
            if (not wanted.target or one.target == wanted.target)
            and (wanted.since is None or one.at >= wanted.since)
            and (wanted.before_id is None or one.entry_id < wanted.before_id)
            and (wanted.after_id is None or one.entry_id > wanted.after_id)
        ]
        return found[:limit]


def catalogs_of(declared: Sequence[Model], stored: StoredModelsInMemory | None) -> CatalogDesk:
    """The real catalog, of what is declared and what lies in memory; nothing has a network."""
    keeper = CatalogKeeper(declared, stored=stored, clock=SystemClock())
    asyncio.run(keeper.load())
    return CatalogDesk(keeper, sources=SourceCheck(hub_url="http://127.0.0.1:1"))


PASS = DecidedPass(
    number=7,
    at=1_767_225_600.0,
    actions=(DecidedAction(kind="Place", subject="big-1a2b3c4d", reason="fewer run than wanted"),),
    refusals={"huge": "no node has 8 free cards of class h100-80g"},
)


class FakeMeasures:
    """Fits what ``serve.measured`` asks of a store."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Capacity] = {}

    async def all(self) -> Sequence[Capacity]:
        return [self.kept[key] for key in sorted(self.kept)]

    async def put(self, measured: Capacity) -> None:
        self.kept[measured.model, measured.profile] = measured


class FakeDecisions:
    """Fits ``Decisions``."""

    async def decisions(self, *, limit: int, since: float | None) -> Sequence[DecidedPass]:
        return [] if since is not None and since > PASS.at else [PASS][:limit]


def control_of(fleet: FakeFleet) -> Control:
    """Everything that the admin API asks, with one fleet behind it."""
    return Control(
        fleet=fleet,
        logs=FakeNodeLogs(),
        checks=FakeChecks(),
        flags=fleet,
        refusals=FakeRefusals(),
        downloads=FakeDownloads(),
        plans=FakePlans(),
        bundles=FakeBundles(),
        rolls=fleet,
        catalogs=catalogs_of((), StoredModelsInMemory()),
        lead=FakeLead(),
        audit=FakeAudit(),
        brakes=fleet,
        measurements=Measured(FakeMeasures(), clock=SystemClock()),
        decisions=FakeDecisions(),
        usage=FakeUsageBooks(),
    )


@dataclass
class FakeReadiness:
    """Fits ``Readiness``."""

    missing: Sequence[str] = ()

    def obstacles(self) -> Sequence[str]:
        return self.missing
