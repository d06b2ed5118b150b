"""A fleet on a clock of its own: the real reconciler, machines with engines, clients that stream.

Nothing sleeps.  A second passes when a test says so: engines come up, agents beat, streams go on
and end, and the control plane, unless it is down, makes a pass.  Clients are served from the last
table that was published, as gateways beside a dead control plane do.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from llmgw.control.catalog.live import LiveCatalog
from llmgw.control.leadership.elector import SoleLeader
from llmgw.control.reconciler.loop import Reconciler
from llmgw.control.reconciler.options import Options
from llmgw.control.reconciler.ports import Rooms
from llmgw.domain import catalog_rules
from llmgw.domain.nodes import HeartbeatFacts, NodeFacts, NodeTarget
from llmgw.domain.replicas import RunningShard, ShardReport, ShardState
from llmgw.domain.routes import EndpointState, RouteTable
from llmgw.domain.snapshots import Bounds
from llmgw.domain.traffic import EndpointTraffic, Traffic
from llmgw.errors import NotConnected
from tests.fakes.clock import FakeClock
from tests.fakes.reconciled import flag


@dataclass
class Engine:
    """One engine that runs; it serves from ``serves_at`` on."""

    shard: RunningShard
    serves_at: float


@dataclass
class Machine:
    """A node as it really is."""

    facts: NodeFacts
    has_power: bool = True
    is_reached: bool = True
    """Whether its agent and the control plane hear each other."""
    is_connected: bool = False
    engines: dict[str, Engine] = field(default_factory=dict)


@dataclass
class Stream:
    """One client's request under way."""

    replica_id: str
    ends_at: float


@dataclass
class Seen:
    """What all clients saw, and what was done to machines."""

    completed: int = 0
    failed: int = 0
    """Requests that found nobody to serve them."""
    broken: Counter[str] = field(default_factory=Counter)
    """Streams that were cut, by the node of their engine."""
    started: list[str] = field(default_factory=list)
    """Shards that were started, in order."""
    stopped: list[str] = field(default_factory=list)
    """Shards that ran and were told to stop."""


class VirtualFleet:
    """Fits the reconciler's ``Dispatcher`` and ``Gateways``."""

    def __init__(self, *models, nodes, clients=4, stream_s=8.0, load_s=20.0, bounds=None):
        """``nodes`` are facts; ``clients`` stream from each model again and again."""
        self.clock = FakeClock()
        self.machines = {facts.node_id: Machine(facts) for facts in nodes}
        self.catalog = LiveCatalog(catalog_rules.build(models))
        self.clients, self.stream_s, self.load_s = clients, stream_s, load_s
        self.bounds = bounds or Bounds()
        self.seen = Seen()
        self.streams: list[tuple[str, Stream | None]] = []
        self.is_serving = False
        """Whether clients ask; nobody does before all is up."""
        self.control: Reconciler | None = None
        self._said: list[ShardReport] = []
        self._words: dict[str, NodeTarget] = {}
        self.start_control()

    # The control plane

    @property
    def lead(self) -> Reconciler:
        """The control plane, which is up."""
        assert self.control is not None
        return self.control

    def start_control(self) -> None:
        """A fresh control plane, which knows the last table and which nodes there are."""
        rooms = Rooms(
            catalog=self.catalog, dispatcher=self, leadership=SoleLeader(), clock=self.clock
        )
        last = self.table if self.control is not None or self.is_serving else RouteTable()
        self.control = Reconciler(
            rooms,
            options=Options(bounds=self.bounds, expected_nodes=frozenset(self.machines)),
            last_routes=last,
        )
        self.control.join(self)

    def kill_control(self) -> None:
        """Its streams end; what it knew is gone, what it published is not."""
        self._table = self.table
        self.control = None
        self._said.clear()
        for machine in self.machines.values():
            machine.is_connected = False

    @property
    def table(self) -> RouteTable:
        """What gateways serve from."""
        return self._table if self.control is None else self.control.routes.current()

    # Orders

    def start(self, node_id, spec):
        machine = self._reached(node_id)
        self.seen.started.append(spec.shard_id)
        shard = RunningShard(
            replica_id=spec.replica_id,
            shard_id=spec.shard_id,
            state=ShardState.LOADING,
            model=spec.profile.served_model_name,
            profile=spec.profile.name,
            rank=spec.rank,
            nnodes=spec.nnodes,
            gpu_indices=spec.gpu_indices,
            hcas=spec.hcas,
            http_port=spec.http_port,
            leader_addr=spec.leader_addr,
            leader_port=spec.leader_port,
            pool=spec.pool,
            fabric=spec.fabric,
            profile_fp=spec.profile_fp,
        )
        machine.engines.setdefault(
            spec.shard_id, Engine(shard, serves_at=self.clock.monotonic() + self.load_s)
        )
        self._say(machine, spec.shard_id, ShardState.LOADING)

    def stop(self, node_id, shard_id):
        machine = self._reached(node_id)
        engine = machine.engines.pop(shard_id, None)
        if engine is not None:
            self.seen.stopped.append(shard_id)
            self._cut(engine.shard.replica_id, node_id)
        self._say(machine, shard_id, ShardState.STOPPED)

    def drain(self, node_id, shard_id):
        engine = self._reached(node_id).engines.get(shard_id)
        if engine is not None:
            engine.shard = replace(engine.shard, state=ShardState.DRAINING)

    # Traffic

    def traffic(self):
        inflight = Counter(s.replica_id for _, s in self.streams if s is not None)
        now = self.clock.monotonic()
        return Traffic(
            {
                one.endpoint_id: EndpointTraffic(
                    inflight[one.endpoint_id],
                    last_used_at=now,
                    answered_at=now if inflight[one.endpoint_id] else None,
                )
                for one in self.table.endpoints
            },
            has_latest_table=True,
        )

    def subscribe(self, on_news):
        """Nothing is told between two passes."""
        return lambda: None

    def worked(self, endpoint_id, *, worked_at, looked_at):
        """Nobody hangs here."""

    # What happens

    def word(self, node_id, target):
        """An operator's word, which the store keeps over a restart."""
        self._words[node_id] = target
        flag(self.lead, node_id, target)

    def lose_power(self, node_id):
        machine = self.machines[node_id]
        for engine in machine.engines.values():
            self._cut(engine.shard.replica_id, node_id)
        machine.engines.clear()
        machine.has_power = False
        self._part(machine)

    def silence(self, *node_ids):
        """The network between these nodes and the control plane is cut; engines serve on."""
        for node_id in node_ids:
            self.machines[node_id].is_reached = False
            self._part(self.machines[node_id])

    def hear(self, *node_ids):
        """The network is back, and power too."""
        for node_id in node_ids:
            self.machines[node_id].is_reached = self.machines[node_id].has_power = True

    async def seconds(self, count):
        """So many seconds pass, with a pass of the control plane in each."""
        for _ in range(count):
            self.clock.advance(1.0)
            self._deliver()
            self._come_up()
            self._beat()
            self._stream()
            if self.control is not None:
                await self.control._pass()

    async def until(self, holds, *, within_s=900):
        """Let time pass until something holds; the seconds that it took."""
        for passed_s in range(within_s):
            if holds():
                return passed_s
            await self.seconds(1)
        raise AssertionError(f"not within {within_s} s: {self}")

    def ready_on(self):
        """The nodes of replicas that serve, once for each."""
        return sorted(
            view.shards[0].node_id for view in self.lead.replicas() if str(view.state) == "ready"
        )

    def __str__(self):
        views = [] if self.control is None else self.control.replicas()
        states = [(v.replica_id, str(v.state), v.shards[0].node_id) for v in views]
        return f"{self.seen} {states}"

    def _come_up(self):
        now = self.clock.monotonic()
        for machine in self.machines.values():
            for shard_id, engine in machine.engines.items():
                is_up = engine.shard.state is ShardState.LOADING and engine.serves_at <= now
                if is_up:
                    engine.shard = replace(engine.shard, state=ShardState.READY)
                    self._say(machine, shard_id, ShardState.READY)

    def _beat(self):
        if self.control is None:
            return
        for node_id, machine in self.machines.items():
            if not (machine.has_power and machine.is_reached):
                continue
            is_known = machine.is_connected and self.control.heartbeat(node_id, HeartbeatFacts())
            if not is_known:
                machine.is_connected = True
                running = tuple(engine.shard for engine in machine.engines.values())
                for shard_id in self.control.register(machine.facts, running):
                    self.stop(node_id, shard_id)
                if node_id in self._words:
                    flag(self.control, node_id, self._words[node_id])

    def _stream(self):
        """Streams end and others begin; a client whose request fails asks again a second later."""
        now = self.clock.monotonic()
        if not self.is_serving:
            return
        if not self.streams:
            names = self.catalog.current().models
            self.streams = [(name, None) for name in names for _ in range(self.clients)]
        after = []
        for number, (model, stream) in enumerate(self.streams):
            kept = stream
            if stream is not None and stream.ends_at <= now:
                self.seen.completed += 1
                kept = None
            after.append((model, kept or self._begun(model, number, now=now)))
        self.streams = after

    def _begun(self, model, number, *, now):
        """A request goes to one that the table lists and that answers; others are tried."""
        listed = [
            one.endpoint_id
            for one in self.table.endpoints
            if one.state is EndpointState.READY and model in one.models
        ]
        answering = [one for one in listed if self._serves(one)]
        if not answering:
            self.seen.failed += 1
            return None
        length_s = self.stream_s * (1 + number % 3)
        return Stream(answering[number % len(answering)], ends_at=now + length_s)

    def _serves(self, replica_id):
        shards = [
            engine.shard
            for machine in self.machines.values()
            for engine in machine.engines.values()
            if engine.shard.replica_id == replica_id
        ]
        return bool(shards) and all(
            s.state in {ShardState.READY, ShardState.DRAINING} for s in shards
        )

    def _cut(self, replica_id, node_id):
        for number, (model, stream) in enumerate(self.streams):
            if stream is not None and stream.replica_id == replica_id:
                self.seen.broken[node_id] += 1
                self.streams[number] = (model, None)

    def _reached(self, node_id):
        machine = self.machines[node_id]
        if not machine.is_connected:
            raise NotConnected(f"node {node_id} has no stream")
        return machine

    def _part(self, machine):
        if machine.is_connected:
            machine.is_connected = False
            if self.control is not None:
                self.control.stream_lost(machine.facts.node_id)

    def _say(self, machine, shard_id, state):
        """Words travel: they arrive a second later, or never when the stream has ended."""
        self._said.append(
            ShardReport(
                node_id=machine.facts.node_id,
                replica_id=shard_id.rpartition(".")[0],
                shard_id=shard_id,
                state=state,
            )
        )

    def _deliver(self):
        said, self._said = self._said, []
        for report in said:
            if self.control is not None and self.machines[report.node_id].is_connected:
                self.control.shard_report(report)
