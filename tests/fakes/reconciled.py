"""A reconciler among fakes, and nodes that do as they are told."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from llmgw.control.catalog.live import LiveCatalog
from llmgw.control.leadership.elector import SoleLeader
from llmgw.control.reconciler.loop import Reconciler
from llmgw.control.reconciler.options import Options
from llmgw.control.reconciler.ports import Rooms
from llmgw.domain import catalog_rules
from llmgw.domain.replicas import ShardReport, ShardState
from tests.fakes import clusters
from tests.fakes.clock import FakeClock
from tests.fakes.dispatching import FakeDispatcher
from tests.fakes.waiting import eventually

PATIENCE_S = 20.0


def flag(reconciler, node_id, target, *, reason="", actor=""):
    """An operator's word on a node, as it takes effect once it is kept."""
    word = reconciler.instructions.flag_for(node_id, target=target, reason=reason, actor=actor)
    return reconciler.instructions.flag_node(node_id, word)


class Stage:
    """A reconciler with all that surrounds it; ``expected`` nodes end its settling."""

    def __init__(
        self,
        *models,
        expected=("n1",),
        leadership=None,
        clock=None,
        last_routes=None,
        bounds=None,
        recorder=None,
        **options,
    ):
        self.clock = clock or FakeClock()
        self.catalog = LiveCatalog(catalog_rules.build(models))
        self.dispatcher = FakeDispatcher()
        self.leadership = leadership or SoleLeader()
        rooms = Rooms(
            catalog=self.catalog,
            dispatcher=self.dispatcher,
            leadership=self.leadership,
            clock=self.clock,
            recorder=recorder,
            dismiss=self.dispatcher.dismiss,
        )
        plain = {"interval_s": 0.02, "wake_gap_s": 0.0, "bounds": bounds or clusters.Bounds()}
        self.reconciler = Reconciler(
            rooms,
            options=Options(**{**plain, **options}, expected_nodes=frozenset(expected)),
            last_routes=last_routes,
        )

    def register(self, node_id, *running, **facts):
        return self.reconciler.register(clusters.facts(node_id, **facts), running)

    def report(self, view, state, *, rank=0, **others):
        """A node's word on a shard of a replica as it is shown."""
        shard = view.shards[rank]
        self.reconciler.shard_report(
            ShardReport(
                node_id=shard.node_id,
                replica_id=view.replica_id,
                shard_id=shard.shard_id,
                state=state,
                **others,
            )
        )

    def say(self, node_id, target, *, reason="", actor=""):
        """An operator's word on a node, as it takes effect."""
        return flag(self.reconciler, node_id, target, reason=reason, actor=actor)

    def roll(self, model, *, may_interrupt=False):
        """An operator's word on a model, as it takes effect."""
        roll = self.reconciler.instructions.roll_for(model, may_interrupt=may_interrupt)
        return self.reconciler.instructions.begin_roll(roll)

    def obey(self):
        """Every node does what it was told: what was started serves, what was stopped has ended."""
        for order, node_id, shard_id in self.dispatcher.taken():
            state = {"start": ShardState.READY, "stop": ShardState.STOPPED}.get(order)
            if state is not None:
                replica_id = shard_id.rpartition(".")[0]
                self.reconciler.shard_report(
                    ShardReport(
                        node_id=node_id, replica_id=replica_id, shard_id=shard_id, state=state
                    )
                )

    def replica(self):
        """The only replica there is."""
        (view,) = self.reconciler.replicas()
        return view

    def urls(self):
        return [e.url for e in self.reconciler.routes.current().endpoints]

    async def until(self, holds):
        """Wait until a condition holds, and not for ever."""
        await eventually(holds, within_s=PATIENCE_S, look_s=0.005)

    async def some_passes(self):
        """Long enough for several passes, where nothing is to happen."""
        await asyncio.sleep(0.1)

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.reconciler.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
