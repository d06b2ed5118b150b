"""Days of a fleet in minutes: the control plane's own passes over virtual nodes and their mishaps.

The clock jumps from one thing that happens to the next. A pass is made when something has changed,
when something falls due, and otherwise every few minutes, by the code of the live control plane.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llmgw.control.catalog.live import LiveCatalog
from llmgw.control.reconciler import deciding
from llmgw.control.reconciler.applying import Applier
from llmgw.control.reconciler.course import Course
from llmgw.control.reconciler.options import Options
from llmgw.control.reconciler.passing import Passing, Surroundings
from llmgw.control.reconciler.records import Records
from llmgw.domain.actions import Place
from llmgw.domain.catalog import Catalog
from llmgw.domain.nodes import NodeFacts
from llmgw.domain.replicas import ShardSpec
from llmgw.simulator import askers, daylight, head_start
from llmgw.simulator.agenda import Agenda
from llmgw.simulator.askers import Askers
from llmgw.simulator.ill_luck import IllLuck
from llmgw.simulator.mishaps import Rates
from llmgw.simulator.sim_shards import Habits
from llmgw.simulator.trial_books import Books
from llmgw.simulator.trial_checks import Checks
from llmgw.simulator.virtual_nodes import VirtualNodes

_QUIET_S = 300.0
"""The longest time between two passes."""
_GATHER_S = 1.0
"""The shortest; the live loop waits less, which costs more passes and shows nothing else."""
_ASK_AGAIN_S = 30.0
"""How often is looked again for a model that requests wait for and that found no room."""
_AHEAD_S = 3600.0
"""Who is there has spoken until then, unless its silence begins before: that is written down."""
_MOMENT_S = 0.1


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """What is simulated; the same plan has the same course, whatever the machine."""

    nodes: tuple[NodeFacts, ...]
    catalog: Catalog
    for_s: float
    seed: int = 0
    rates: Rates = field(default_factory=Rates)
    habits: Habits = field(default_factory=Habits)
    sessions_a_day: float = 0.0
    """For each model that is loaded on demand, in the mean of a working day."""
    session_s: float = 1800.0
    is_cold: bool = False
    """Nothing runs at the beginning; else all that is wanted serves, as far as there is room."""


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """All that came of it; only ``took_s`` and the times in ``books`` depend on the machine.

    They are processor time: what others do on the machine is left out.
    """

    books: Books
    checks: Checks
    passes: int
    mishaps: dict[str, int]
    sessions: int
    took_s: float


class FleetTrial:
    """One trial from the first registration to its end."""

    def __init__(
        self, plan: TrialPlan, *, on_progress: Callable[[float], None] = lambda _: None
    ) -> None:
        """``on_progress`` is told the simulated seconds after each pass."""
        self._plan = plan
        self._on_progress = on_progress
        self._options = Options(
            interval_s=_QUIET_S, expected_nodes=frozenset(f.node_id for f in plan.nodes)
        )
        self._agenda = agenda = Agenda()
        self._nodes = VirtualNodes(plan.nodes, agenda=agenda, habits=plan.habits, seed=plan.seed)
        self._records = Records(
            catalog=LiveCatalog(plan.catalog),
            clock=agenda,
            bounds=self._options.bounds,
            served=(),
            on_change=self._wake,
        )
        self._course = Course(self._options, now=0.0)
        self._passing = Passing(
            records=self._records,
            course=self._course,
            applier=Applier(self._nodes),
            options=self._options,
        )
        self._askers = Askers(
            daylight.sessions(
                tuple(askers.idle_timeouts(plan.catalog)),
                a_day=plan.sessions_a_day,
                mean_s=plan.session_s,
                seed=plan.seed,
            ),
            catalog=plan.catalog,
            agenda=agenda,
            on_news=self._wake,
        )
        self._luck = IllLuck(
            plan.rates, nodes=self._nodes, records=self._records, agenda=agenda, seed=plan.seed,
            on_due=self._wake,
        )  # fmt: skip
        self._books = Books(plan.catalog, for_s=plan.for_s)
        self._checks = Checks()
        self._draw = random.Random(f"{plan.seed} passes")  # noqa: S311 - nothing secret is drawn
        self._is_woken = True
        self._beat_until = 0.0

    def run(self) -> TrialOutcome:
        """The whole of it."""
        began = time.thread_time()
        self._nodes.join(self._records, running=self._running())
        passed_at, due_at = 0.0, 0.0
        while True:
            next_at = due_at if not self._is_woken else min(due_at, passed_at + _GATHER_S)
            next_at = min(next_at, self._plan.for_s)
            if self._agenda.next_at < next_at and not self._is_woken:
                self._agenda.advance(self._agenda.next_at)
                continue
            self._agenda.advance(next_at)
            self._pass()
            passed_at = self._agenda.monotonic()
            self._on_progress(passed_at)
            if passed_at >= self._plan.for_s:
                return self._outcome(time.thread_time() - began)
            due_at = passed_at + self._due_in_s(passed_at)

    def _running(self) -> Mapping[str, Sequence[ShardSpec]]:
        plan = self._plan
        return {} if plan.is_cold else head_start.running(plan.catalog, plan.nodes)

    def _wake(self) -> None:
        self._is_woken = True

    def _pass(self) -> None:
        now = self._agenda.monotonic()
        self._is_woken = False
        self._books.pass_time(now=now)
        self._beat(now)
        around = Surroundings(
            now=now,
            catalog=self._plan.catalog,
            traffic=self._askers.traffic(self._records.cluster, now=now),
            seed=self._draw.getrandbits(32),
        )
        self._passing.look(around)
        snapshot = self._passing.snapshot(around)
        began = time.thread_time()
        decision = deciding.decide(snapshot)
        took_s = time.thread_time() - began
        self._passing.carry_out(decision, seen=snapshot.cluster, now=self._agenda.monotonic)
        after = self._records.cluster
        self._books.note(decision, cluster=snapshot.cluster, now=now, took_s=took_s)
        self._checks.look(snapshot, decision, after)
        self._books.stand(
            after,
            cards_there=self._nodes.cards_there,
            silent=self._nodes.silent,
            asked=self._course.asked,
        )
        if any(isinstance(action, Place) for action in decision.actions):
            self._wake()

    def _beat(self, now: float) -> None:
        """Everybody who is there goes on speaking; thousands of beats are one step."""
        nodes = self._nodes
        if now >= self._beat_until:
            self._beat_until = now + _AHEAD_S
            speaking = set(nodes.ids)
        else:
            speaking = nodes.returned
        speaking -= nodes.silent
        nodes.returned = set()
        if not speaking:
            return
        cluster, until_at = self._records.cluster, self._beat_until + _QUIET_S
        spoken = {
            node_id: replace(cluster.nodes[node_id], last_seen_at=until_at) for node_id in speaking
        }
        self._records.cluster = replace(cluster, nodes={**cluster.nodes, **spoken})

    def _due_in_s(self, now: float) -> float:
        due_s = self._course.next_due_s(self._records.cluster, now=now)
        waits = self._course.refusals.keys() & self._course.asked
        return max(_MOMENT_S, min(due_s, _ASK_AGAIN_S) if waits else due_s)

    def _outcome(self, took_s: float) -> TrialOutcome:
        self._checks.note_doubly_held(self._nodes.doubly_held)
        return TrialOutcome(
            books=self._books,
            checks=self._checks,
            passes=len(self._books.deciding_s),
            mishaps=dict(self._luck.befallen),
            sessions=self._askers.begun,
            took_s=took_s,
        )
