"""What passes remember of each other: settling, who lacks replicas since when, who was refused.

The loop keeps one and hands parts of it into each snapshot; nothing in here reads a clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from llmgw.control.reconciler import braking, demand, settling, wanting
from llmgw.control.reconciler.options import Options
from llmgw.domain.actions import Decision, Place
from llmgw.domain.catalog import Catalog
from llmgw.domain.replicas import ReplicaState
from llmgw.domain.snapshots import Brake, Cluster
from llmgw.domain.status_views import BrakeView
from llmgw.domain.traffic import Traffic
from llmgw.kit import logs

_log = logs.get(__name__)

_WHILE_DRAINING_S = 1.0
"""How often to look whether what drains has ended: nobody tells when the last request has."""


class Course:
    """The memory of the loop."""

    def __init__(self, options: Options, *, now: float) -> None:
        """Begin to settle ``now``."""
        self._options = options
        self._expected = options.expected_nodes
        self.settling = settling.begun(now=now)
        self.brake = Brake()
        self._awaited: Mapping[str, float] = {}
        self.missing_since: Mapping[str, float] = {}
        self.used_at: Mapping[str, float] = {}
        self.waited_at: Mapping[str, float] = {}
        self.asked: frozenset[str] = frozenset()
        self.asked_at: Mapping[str, float] = {}
        self.watched_since: Mapping[str, float] = {}
        self.refusals: Mapping[str, str] = {}

    def expect(self, present: Collection[str]) -> None:
        """Await these nodes too: they were there when any was last."""
        self._expected = self._options.expected_nodes | frozenset(present)

    def begin_anew(self, *, now: float) -> None:
        """Await the nodes again: a new leader knows as little as a new process."""
        self.settling = settling.begun(now=now)
        self.brake = Brake()
        self.watched_since = {}

    @property
    def is_patient(self) -> bool:
        """Whether nodes that are not there may come back: no one is given up yet."""
        return self.brake.is_on or not self.settling.is_over

    def lift_brake(self, cluster: Cluster, *, now: float) -> bool:
        """Take the brake off; whether it was on."""
        was_on = self.brake.is_on
        bounds = self._options.bounds
        self._note_brake(
            braking.lifted(cluster.nodes, awaited=self._awaited, bounds=bounds, now=now)
        )
        return was_on

    def look(
        self,
        cluster: Cluster,
        catalog: Catalog,
        *,
        traffic: Traffic,
        awaited: Collection[str] = (),
        now: float,
    ) -> None:
        """Note which nodes are there, what is asked for, and which models lack replicas.

        ``awaited`` are nodes that ran something before this process began or came to lead.
        """
        self.used_at = demand.used(self.used_at, cluster=cluster, traffic=traffic, now=now)
        self.waited_at = demand.waited(self.waited_at, traffic=traffic, now=now)
        self.watched_since = demand.watched(
            self.watched_since, cluster=cluster, traffic=traffic, now=now
        )
        self.asked = self._asked(cluster, traffic=traffic, now=now)
        bounds = self._options.bounds
        was_settling = not self.settling.is_over
        self.settling = settling.noted(
            self.settling,
            registered=cluster.nodes.keys(),
            expected=self._expected,
            now=now,
            window_s=bounds.settle_window_s,
        )
        if was_settling and self.settling.is_over:
            _log.info("settled", nodes=len(cluster.nodes), after_s=now - self.settling.started_at)
        self._awaited = (
            dict.fromkeys(awaited, self.settling.started_at) if self.settling.is_over else {}
        )
        self._note_brake(
            braking.noted(
                self.brake, nodes=cluster.nodes, awaited=self._awaited, bounds=bounds, now=now
            )
        )
        self.missing_since = wanting.noted(
            self.missing_since,
            catalog=catalog,
            replicas=cluster.replicas.values(),
            asked=self.asked,
            now=now,
        )

    def _note_brake(self, brake: Brake) -> None:
        was_on, self.brake = self.brake.is_on, brake
        if brake.is_on and not was_on:
            _log.warning(
                "brake_on", silent_nodes=len(brake.held), nodes=" ".join(sorted(brake.held))
            )
        elif was_on and not brake.is_on:
            _log.warning("brake_off", still_silent=len(brake.passed))

    def _asked(self, cluster: Cluster, *, traffic: Traffic, now: float) -> frozenset[str]:
        by_requests = demand.asked(
            self.used_at,
            traffic=traffic,
            waited_at=self.waited_at,
            refused=self.refusals,
            now=now,
        )
        self.asked_at = demand.remembered(self.asked_at, asked=by_requests, now=now)
        patience_s = self._options.bounds.unwanted_after_s
        return by_requests | demand.awaiting_room(
            cluster, asked_at=self.asked_at, patience_s=patience_s, now=now
        )

    def note(self, decision: Decision) -> None:
        """Note which models could not be placed; each is told once, until it can be."""
        for model, reason in decision.refusals.items():
            if model not in self.refusals:
                _log.warning("model_unplaced", model=model, reason=reason)
        placed = {a.replica.model for a in decision.actions if isinstance(a, Place)}
        # A pass that places one model does not come to all others: their answers still stand.
        standing = {m: r for m, r in self.refusals.items() if placed and m in self.missing_since}
        both = {**standing, **decision.refusals}
        self.refusals = {model: reason for model, reason in both.items() if model not in placed}

    def settling_left_s(self, *, now: float) -> float | None:
        """Seconds until settling is over; nothing when it is."""
        if self.settling.is_over:
            return None
        window_s = self._options.bounds.settle_window_s
        return settling.left_s(self.settling, now=now, window_s=window_s)

    def brake_shown(self, *, now: float) -> BrakeView | None:
        """The brake, while it is on."""
        since_at = self.brake.since_at
        if since_at is None:
            return None
        return BrakeView(
            since_s=now - since_at,
            ends_in_s=max(0.0, since_at + self._options.bounds.brake_max_s - now),
            node_ids=tuple(sorted(self.brake.held)),
        )

    def next_due_s(self, cluster: Cluster, *, now: float) -> float:
        """Seconds to the next pass: an interval, or less when a wait of our own ends before."""
        ends = [f.until_at - now for f in cluster.failures.values() if f.until_at > now]
        if (left_s := self.settling_left_s(now=now)) is not None:
            ends.append(left_s)
        if any(r.state is ReplicaState.DRAINING for r in cluster.replicas.values()):
            ends.append(_WHILE_DRAINING_S)
        return min([self._options.interval_s, *ends])
