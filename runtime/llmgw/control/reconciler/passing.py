"""One pass without the loop around it: what is seen, and how what was decided is carried out.

The live loop makes its passes with it, and so does the simulator of fleets, on a clock of its own.
Between the two steps stands ``deciding.decide``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from llmgw.control.reconciler.applying import Applier
from llmgw.control.reconciler.course import Course
from llmgw.control.reconciler.options import Options
from llmgw.control.reconciler.outdated import Outdated
from llmgw.control.reconciler.records import Records
from llmgw.domain.actions import Action, Decision
from llmgw.domain.catalog import Catalog
from llmgw.domain.snapshots import Cluster, Snapshot
from llmgw.domain.traffic import Traffic
from llmgw.kit import logs

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pass sees beside the cluster; ``seed`` is the source of its ids and jitter."""

    now: float
    catalog: Catalog
    traffic: Traffic = field(default_factory=Traffic)
    awaited: frozenset[str] = frozenset()
    """Nodes that ran something before and have not come back yet."""
    draining_inflight: Mapping[str, int] = field(default_factory=dict)
    is_leader: bool = True
    is_lapsed: bool = False
    seed: int = 0


class Passing:
    """The cluster, what passes remember of each other, and the way to the nodes."""

    def __init__(
        self, *, records: Records, course: Course, applier: Applier, options: Options
    ) -> None:
        """Nothing is done yet."""
        self._records = records
        self._course = course
        self._applier = applier
        self._bounds = options.bounds

    def look(self, around: Surroundings) -> None:
        """Note which nodes are there, what is asked for, and which models lack replicas."""
        self._course.look(
            self._records.cluster,
            around.catalog,
            traffic=around.traffic,
            awaited=around.awaited,
            now=around.now,
        )

    def snapshot(self, around: Surroundings) -> Snapshot:
        """All that a pass decides from."""
        course = self._course
        return Snapshot(
            now=around.now,
            catalog=around.catalog,
            cluster=self._records.cluster,
            settling=course.settling,
            brake=course.brake,
            bounds=self._bounds,
            missing_since=course.missing_since,
            asked=course.asked,
            asked_at=course.asked_at,
            watched_since=course.watched_since,
            traffic=around.traffic,
            draining_inflight=around.draining_inflight,
            is_leader=around.is_leader,
            is_lapsed=around.is_lapsed,
            seed=around.seed,
        )

    def carry_out(self, decision: Decision, *, seen: Cluster, now: Callable[[], float]) -> None:
        """Do what was decided, on the cluster as it is by then; a fault stops its action alone.

        ``seen`` is the cluster that was decided on; what has changed since is left to another pass.
        """
        for fault in decision.faults:
            _log.error("decision_fault", error=repr(fault), exc=fault)
        self._course.note(decision)
        outdated = Outdated(seen=seen, found=self._records.cluster)
        for action in decision.actions:
            if outdated.covers(action, self._records.cluster):
                _log.info("action_void", action=type(action).__name__, reason=action.reason)
            else:
                self._apply(action, now=now())

    def _apply(self, action: Action, *, now: float) -> None:
        try:
            self._records.cluster = self._applier.apply(self._records.cluster, action, now=now)
        except Exception as fault:  # noqa: BLE001 - one action's fault is not the others'
            _log.error("action_failed", action=repr(action), error=repr(fault), exc=fault)
