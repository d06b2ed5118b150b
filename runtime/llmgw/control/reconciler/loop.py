"""The pass, again and again: take one frozen snapshot, decide, apply, publish.

It runs each interval, when something has changed, and when something falls due. A fault in one pass
is logged and the next one tries again; a standby looks on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from llmgw import __version__
from llmgw.control.reconciler import (
    deciding,
    demand,
    explaining,
    fleet_figures,
    previewing,
    showing,
)
from llmgw.control.reconciler.announcing import Announcing
from llmgw.control.reconciler.applying import Applier
from llmgw.control.reconciler.course import Course
from llmgw.control.reconciler.instructions import Instructions
from llmgw.control.reconciler.options import Options
from llmgw.control.reconciler.passing import Passing, Surroundings
from llmgw.control.reconciler.ports import Gateways, Rooms
from llmgw.control.reconciler.records import Records
from llmgw.control.reconciler.tallying import Tally
from llmgw.domain import summaries
from llmgw.domain.actions import Decision, Place
from llmgw.domain.nodes import HeartbeatFacts, NodeFacts
from llmgw.domain.outlooks import OutlookView, PlanView
from llmgw.domain.placement_views import PlacementView
from llmgw.domain.questions import WhatIf
from llmgw.domain.replicas import RunningShard, ShardReport
from llmgw.domain.routes import RouteTable
from llmgw.domain.snapshots import Snapshot
from llmgw.domain.status_views import ControlView, StatusView
from llmgw.domain.traffic import Traffic
from llmgw.domain.views import ModelView, NodeView, ReplicaView
from llmgw.kit import ids, logs
from llmgw.kit.metrics import Sample

_log = logs.get(__name__)

_STALL_SHARE = 1 / 3
"""A pass later than this share of ``unreachable_after`` says that this process stood still."""


class Reconciler:
    """Keeps what runs equal to what should run; hears agents, shows the fleet, publishes routes.

    What operators say takes effect through ``instructions``.
    """

    def __init__(
        self, rooms: Rooms, *, options: Options | None = None, last_routes: RouteTable | None = None
    ) -> None:
        """``last_routes`` is what an earlier process published last, where that is known."""
        self._rooms = rooms
        self._options = options or Options()
        self._started_at = rooms.clock.monotonic()
        self._announcing = Announcing(
            last_routes or RouteTable(),
            clock=rooms.clock,
            bounds=self._options.bounds,
        )
        self.routes = self._announcing.routes
        self._course = Course(self._options, now=self._started_at)
        self._was_leader = True
        self._pass_at = self._started_at
        self._deciding_s = 0.0
        self._woken = asyncio.Event()
        self._gateways: Gateways | None = None
        self._tally = Tally()
        self._records = Records(
            catalog=rooms.catalog,
            clock=rooms.clock,
            bounds=self._options.bounds,
            served=self._announcing.served(),
            on_change=self.wake,
        )
        self._passing = Passing(
            records=self._records,
            course=self._course,
            applier=Applier(rooms.dispatcher),
            options=self._options,
        )
        self.instructions = Instructions(
            rooms, records=self._records, course=self._course, fleet=self, on_change=self.wake
        )

    async def run(self) -> None:
        """Pass after pass, until cancelled."""
        unsubscribe = self._rooms.catalog.subscribe(self.wake)
        try:
            while True:
                await self._guarded_pass()
                await self._rest()
        finally:
            unsubscribe()

    def wake(self) -> None:
        """Have the next pass come soon."""
        self._woken.set()

    def join(self, gateways: Gateways) -> Callable[[], None]:
        """Hear what gateways see, and tell them what agents do; call what is returned to end it."""
        self._gateways = gateways
        unsubscribe = gateways.subscribe(self.wake)
        self.wake()

        def part() -> None:
            unsubscribe()
            self._gateways = None

        return part

    # What agents say

    def register(self, facts: NodeFacts, running: tuple[RunningShard, ...]) -> tuple[str, ...]:
        """A node said what it is and what runs on it; the shard ids that it shall stop."""
        return self._records.register(facts, running)

    def heartbeat(self, node_id: str, beat: HeartbeatFacts) -> bool:
        """A node is alive; false when it must register first."""
        is_known = self._records.heartbeat(node_id, beat)
        if beat.shard_work and self._gateways is not None:
            for replica_id, seen in self._records.work_in(beat).items():
                self._gateways.worked(
                    replica_id, worked_at=seen.worked_at, looked_at=seen.looked_at
                )
        return is_known

    def shard_report(self, report: ShardReport) -> None:
        """A shard stands somewhere."""
        self._records.shard_report(report)

    def stream_lost(self, node_id: str) -> None:
        """A node cannot be told anything for now."""
        self._records.stream_lost(node_id)

    def stand_by(self) -> None:
        """Another control plane leads: let go of what agents said, for they say it there now.

        What was published stays: the gateways beside this one go on serving from it.
        """
        self._announcing.let_go()
        self._records.let_go(served=self._announcing.served())

    def knows_fleet(self) -> bool:
        """Whether every node that may serve has spoken, or has had the time to, in this term."""
        is_published = self.routes.current().term == self._rooms.leadership.term()
        return is_published and self._course.settling.is_over

    # What people see

    def status(self) -> StatusView:
        """The fleet on one page."""
        return summaries.summarise(
            control=self._control(),
            nodes=self.nodes(),
            models=self.models(),
            replicas=self.replicas(),
        )

    def nodes(self) -> tuple[NodeView, ...]:
        """Every known node, lost ones too, in the order of their ids."""
        return showing.nodes(self._with_absent(), banned=self._records.banned)

    def models(self) -> tuple[ModelView, ...]:
        """Every catalog entry, in the order of their names."""
        return showing.models(self._snapshot(), refusals=self._course.refusals)

    def replicas(self) -> tuple[ReplicaView, ...]:
        """Every replica that holds something on a node, in the order of their ids."""
        return showing.replicas(self._snapshot())

    def explain(self, model: str) -> PlacementView:
        """Why a model is or is not placed; ``Unknown`` when there is no such."""
        return explaining.explain(model, self._snapshot())

    async def figures(self) -> list[Sample]:
        """The fleet of this moment in figures, of the families in ``fleet_families``."""
        samples = fleet_figures.of(self._with_absent(), control=self._control())
        return [*await asyncio.to_thread(list, samples), *self._tally.samples()]

    async def plan(self) -> PlanView:
        """What the next pass would do."""
        return await asyncio.to_thread(previewing.plan, self._snapshot())

    async def what_if(self, question: WhatIf) -> OutlookView:
        """What passes would do after a change; ``Unknown``, ``Conflict`` or ``CatalogInvalid``."""
        change = previewing.change_of(question)
        return await asyncio.to_thread(previewing.outlook, self._snapshot(), change)

    # The pass

    async def _guarded_pass(self) -> None:
        try:
            await self._pass()
        except Exception as fault:  # noqa: BLE001 - the loop must outlive a bad pass
            _log.error("pass_failed", error=repr(fault), exc=fault)

    async def _pass(self) -> None:
        self._woken.clear()
        has_stalled = self._excuse_stall()
        if not self._leads() and not self._rooms.leadership.is_lapsed():
            return
        if has_stalled:
            # What agents said meanwhile waits in their streams, and comes before any judgement.
            self.wake()
            return
        now = self._rooms.clock.monotonic()
        self._passing.look(self._surroundings())
        snapshot, at = self._snapshot(), self._rooms.clock.wall()
        term = self._rooms.leadership.term()
        decision = await self._decide(snapshot)
        if not self._may_act(snapshot, term=term):
            return
        if self._rooms.recorder is not None:
            self._rooms.recorder.record(snapshot, decision, at=at)
        self._passing.carry_out(decision, seen=snapshot.cluster, now=self._rooms.clock.monotonic)
        self._publish()
        self._tally.note(decision, took_s=self._rooms.clock.monotonic() - now)
        if any(isinstance(action, Place) for action in decision.actions):
            # Only one is placed a pass, so that no two are given the same cards.
            self.wake()

    def _leads(self) -> bool:
        """Whether to act; a new leader awaits its nodes as a new process does."""
        is_leader = self._rooms.leadership.is_leader()
        if is_leader and not self._was_leader:
            now = self._rooms.clock.monotonic()
            self._announcing.await_anew(now=now)
            self._course.begin_anew(now=now)
        self._was_leader = is_leader
        return is_leader

    def _may_act(self, snapshot: Snapshot, *, term: int) -> bool:
        """Whether what was decided in a term may be done: deciding takes time."""
        leadership = self._rooms.leadership
        is_so = leadership.is_leader() or (snapshot.is_lapsed and leadership.is_lapsed())
        return is_so and leadership.term() == term

    def _excuse_stall(self) -> bool:
        """Count no silence of nodes while this process itself stood still; whether it did."""
        now, bounds = self._rooms.clock.monotonic(), self._options.bounds
        stalled_s = now - self._pass_at - self._options.interval_s
        has_stalled = stalled_s > bounds.unreachable_after_s * _STALL_SHARE
        if has_stalled:
            _log.warning("control_plane_stalled", stalled_s=stalled_s)
            self._records.excuse(stalled_s=stalled_s, now=now)
        self._pass_at = now
        return has_stalled

    async def _decide(self, snapshot: Snapshot) -> Decision:
        """Decide here, or beside the loop when that was long the last time."""
        begun_at = self._rooms.clock.monotonic()
        if self._deciding_s > self._options.thread_above_s:
            decision = await asyncio.to_thread(deciding.decide, snapshot)
        else:
            decision = deciding.decide(snapshot)
        self._deciding_s = self._rooms.clock.monotonic() - begun_at
        return decision

    def _publish(self) -> None:
        self._announcing.announce(
            self._snapshot(),
            is_patient=self._course.is_patient,
            refused=self._course.refusals.keys(),
            term=self._rooms.leadership.term(),
        )

    async def _rest(self) -> None:
        """Wait until something changes or falls due, and a moment more to take changes together."""
        now = self._rooms.clock.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._course.next_due_s(self._records.cluster, now=now)):
                await self._woken.wait()
        passed_s = self._rooms.clock.monotonic() - self._pass_at
        await asyncio.sleep(max(0.0, self._options.wake_gap_s - passed_s))

    def _traffic(self) -> Traffic:
        return Traffic() if self._gateways is None else self._gateways.traffic()

    def _snapshot(self) -> Snapshot:
        return self._passing.snapshot(self._surroundings())

    def _with_absent(self) -> Snapshot:
        """With nodes that have not come back, which are shown and decide nothing."""
        snapshot = self._snapshot()
        nodes = {**self._records.absent, **snapshot.cluster.nodes}
        return replace(snapshot, cluster=replace(snapshot.cluster, nodes=nodes))

    def _surroundings(self) -> Surroundings:
        traffic = self._traffic()
        carried = self._announcing.carried(
            self._records.cluster.nodes.keys(),
            traffic=traffic,
            is_patient=self._course.is_patient,
        )
        return Surroundings(
            now=self._rooms.clock.monotonic(),
            catalog=self._rooms.catalog.current(),
            traffic=traffic,
            awaited=frozenset(one.node_id for one in carried),
            draining_inflight=demand.draining_inflight(self.routes.current(), traffic),
            is_leader=self._was_leader,
            is_lapsed=not self._was_leader and self._rooms.leadership.is_lapsed(),
            seed=int(ids.token(8), 16),
        )

    def _control(self) -> ControlView:
        now = self._rooms.clock.monotonic()
        return ControlView(
            version=__version__,
            uptime_s=now - self._started_at,
            is_leader=self._rooms.leadership.is_leader(),
            term=self._rooms.leadership.term(),
            settling_left_s=self._course.settling_left_s(now=now),
            routes_number=self.routes.current().number,
            skipped_models=self._rooms.catalog.current().skipped,
            gateways=self._rooms.gateways_apart(),
            brake=self._course.brake_shown(now=now),
        )
