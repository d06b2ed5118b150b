"""Machines whose engines and streams break and that lie, and a control plane that is restarted."""

from __future__ import annotations

from dataclasses import replace

from llmgw.control.catalog.live import LiveCatalog
from llmgw.control.reconciler import settling
from llmgw.control.reconciler.applying import Applier
from llmgw.control.reconciler.deciding import decide
from llmgw.control.reconciler.records import Records
from llmgw.domain import catalog_rules
from llmgw.domain.nodes import HeartbeatFacts
from llmgw.domain.replicas import RunningShard, ShardReport, ShardState
from llmgw.domain.snapshots import Bounds, Snapshot
from llmgw.errors import NotConnected
from tests.fakes.clock import FakeClock

NEXT = {
    ShardState.PENDING: ShardState.STARTING,
    ShardState.STARTING: ShardState.LOADING,
    ShardState.LOADING: ShardState.READY,
}


class SmallWorld:
    """The machines as they really are, beside what the control plane believes of them."""

    def __init__(self, facts, models):
        self.clock = FakeClock()
        self.facts = {f.node_id: f for f in facts}
        self.engines = {node_id: {} for node_id in self.facts}
        self.connected = set()
        self.catalog = LiveCatalog(catalog_rules.build(models))
        self.bounds = Bounds()
        self.passes = 0
        self.refusing = set()
        """Nodes that start nothing, and say so."""
        self.said = []
        """All that was ever said of shards, for those who repeat it."""
        self.refusals = {}
        self.start_control()

    # The control plane

    def start_control(self):
        """A fresh control plane, which knows nothing."""
        self.connected.clear()
        self.under_way = []
        self.records = Records(
            catalog=self.catalog,
            clock=self.clock,
            bounds=self.bounds,
            served=(),
            on_change=lambda: None,
        )

    def run_pass(self, *, cut=None):
        """Decide and apply, or only the first ``cut`` actions of it."""
        self.passes += 1
        now = self.clock.monotonic()
        decision = decide(
            Snapshot(
                now=now,
                catalog=self.catalog.current(),
                cluster=self.records.cluster,
                settling=replace(settling.begun(now=0.0), is_over=True),
                bounds=self.bounds,
                seed=self.passes,
            )
        )
        assert not decision.faults, decision.faults
        self.refusals = decision.refusals
        for action in decision.actions[:cut]:
            self.records.cluster = Applier(self).apply(self.records.cluster, action, now=now)

    # Orders; this fits the reconciler's ``Dispatcher``

    def start(self, node_id, spec):
        self._need(node_id)
        if node_id in self.refusing:
            self._say(node_id, spec.replica_id, spec.shard_id, ShardState.FAILED)
            return
        self.engines[node_id].setdefault(
            spec.shard_id,
            RunningShard(
                replica_id=spec.replica_id,
                shard_id=spec.shard_id,
                state=ShardState.PENDING,
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
            ),
        )

    def stop(self, node_id, shard_id):
        self._need(node_id)
        engine = self.engines[node_id].pop(shard_id, None)
        replica_id = engine.replica_id if engine else shard_id.rpartition(".")[0]
        self._say(node_id, replica_id, shard_id, ShardState.STOPPED)

    def drain(self, node_id, shard_id):
        self._need(node_id)

    # What happens to machines

    def connect(self, node_id):
        """The agent registers, and stops what nobody claims."""
        self.connected.add(node_id)
        running = tuple(self.engines[node_id].values())
        self._lose_words_of(node_id)
        for shard_id in self.records.register(self.facts[node_id], running):
            self.stop(node_id, shard_id)

    def disconnect(self, node_id):
        self.connected.discard(node_id)
        self._lose_words_of(node_id)
        self.records.stream_lost(node_id)

    def crash(self, node_id):
        """The machine loses power: nothing runs, and nothing was said."""
        self.engines[node_id].clear()
        self.disconnect(node_id)

    def kill(self, node_id, shard_id):
        """One engine dies; its agent says so if it can."""
        engine = self.engines[node_id].pop(shard_id)
        if node_id in self.connected:
            self._say(node_id, engine.replica_id, shard_id, ShardState.FAILED)

    def repeat(self, number):
        """A report that was given before, perhaps long ago, comes again."""
        if self.said:
            self.records.shard_report(self.said[number % len(self.said)])

    def step(self, seconds):
        """Time passes: engines come up, agents beat and register again where they are refused."""
        self.clock.advance(seconds)
        said, self.under_way = self.under_way, []
        for report in said:
            self.records.shard_report(report)
        for node_id, engines in self.engines.items():
            for shard_id, engine in list(engines.items()):
                state = NEXT.get(engine.state, engine.state)
                engines[shard_id] = replace(engine, state=state)
                if node_id in self.connected and state is not engine.state:
                    self._say(node_id, engine.replica_id, shard_id, state)
            is_refused = node_id in self.connected and not self.records.heartbeat(
                node_id, HeartbeatFacts()
            )
            if is_refused:
                self.connect(node_id)

    def _need(self, node_id):
        if node_id not in self.connected:
            raise NotConnected(f"node {node_id} has no stream")

    def _say(self, node_id, replica_id, shard_id, state):
        """Words travel: they arrive with the next step, or never when the stream breaks."""
        report = ShardReport(node_id=node_id, replica_id=replica_id, shard_id=shard_id, state=state)
        self.under_way.append(report)
        self.said.append(report)

    def _lose_words_of(self, node_id):
        self.under_way = [report for report in self.under_way if report.node_id != node_id]
