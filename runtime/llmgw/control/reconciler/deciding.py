"""One pass of the reconciler as a function: what is, in; what to do, out.

Pure: the live pass, ``explain`` and every preview call the same function. Each action is applied to
the snapshot before the next is decided, so what is freed is there to be taken, and nothing is given
twice. What fails by a mistake of ours is left out alone and reported in ``Decision.faults``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from llmgw.control.inventory import liveness
from llmgw.control.placement import planning
from llmgw.control.reconciler import (
    advancing,
    backing_off,
    braking,
    draining,
    effects,
    evicting,
    gates,
    idleness,
    moving,
    restoring,
    rolling,
    starting,
    wanting,
)
from llmgw.domain.actions import (
    Action,
    Decision,
    ExpireNode,
    ForgetFailures,
    StopStray,
    Unreserve,
)
from llmgw.domain.catalog import Model
from llmgw.domain.nodes import Liveness
from llmgw.domain.replicas import Replica, ReplicaState
from llmgw.domain.snapshots import Snapshot

_T = TypeVar("_T")

_MOST_STEPS = 8
"""A replica needs at most fail, stop and release in one pass; more would be a circle."""


def decide(snapshot: Snapshot) -> Decision:
    """The actions of one pass, in the order to apply them; none for a standby."""
    if not snapshot.is_leader:
        return restoring.decide(snapshot) if snapshot.is_lapsed else Decision()
    turn = _Turn(snapshot)
    _expire_nodes(turn)
    for replica_id in snapshot.cluster.replicas:
        turn.guarded(_advance, replica_id)
    _remind_of_strays(turn)
    _move_off(turn)
    _scale_down(turn)
    _stop_idle(turn)
    _forget_failures(turn)
    _let_go_of_room(turn)
    _place_one(turn)
    return turn.decision()


class _Turn:
    """The decision as it grows, and the snapshot as it would be by then."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.refusals: dict[str, str] = {}
        self._actions: list[Action] = []
        self._faults: list[Exception] = []

    def do(self, action: Action) -> None:
        self._actions.append(action)
        cluster = effects.after(self.snapshot.cluster, action, now=self.snapshot.now)
        self.snapshot = replace(self.snapshot, cluster=cluster)

    def guarded(self, work: Callable[[_Turn, _T], None], item: _T) -> None:
        """One item's share of the work; its fault must not stop the others."""
        try:
            work(self, item)
        except Exception as fault:  # noqa: BLE001 - the per-item edge
            self._faults.append(fault)

    def decision(self) -> Decision:
        return Decision(
            actions=tuple(self._actions),
            refusals=self.refusals,
            faults=tuple(self._faults),
        )


def _expire_nodes(turn: _Turn) -> None:
    now, bounds = turn.snapshot.now, turn.snapshot.bounds
    for node_id, node in turn.snapshot.cluster.nodes.items():
        alive = liveness.of(node, now=now, bounds=bounds)
        is_new_loss = alive is Liveness.LOST is not node.liveness
        if is_new_loss and braking.spares(turn.snapshot.brake, node_id, now=now):
            alive = Liveness.UNREACHABLE
        if alive is not node.liveness and alive is not Liveness.READY:
            silent = f"silent for {now - node.last_seen_at:.0f} s"
            turn.do(ExpireNode(node_id, alive, last_seen_at=node.last_seen_at, reason=silent))


def _advance(turn: _Turn, replica_id: str) -> None:
    for _ in range(_MOST_STEPS):
        replica = turn.snapshot.cluster.replicas.get(replica_id)
        step = None if replica is None else advancing.next_step(replica, turn.snapshot)
        if step is None:
            return
        turn.do(step)


def _remind_of_strays(turn: _Turn) -> None:
    now, bounds = turn.snapshot.now, turn.snapshot.bounds
    for stray in turn.snapshot.cluster.strays.values():
        node = turn.snapshot.cluster.nodes.get(stray.node_id)
        is_due = stray.ordered_at is None or now - stray.ordered_at >= bounds.resend_after_s
        if node is not None and node.is_connected and is_due:
            turn.do(StopStray(stray.node_id, stray.shard_id, reason="it has not confirmed its end"))


def _move_off(turn: _Turn) -> None:
    for roll in tuple(rolling.steps(turn.snapshot)):
        turn.do(roll)
    for step in moving.beginnings(turn.snapshot):
        turn.do(step)
    for drain in tuple(moving.ends(turn.snapshot)):
        turn.do(drain)
        turn.guarded(_advance, drain.replica_id)


def _scale_down(turn: _Turn) -> None:
    for drain in draining.surplus(turn.snapshot):
        turn.do(drain)
        turn.guarded(_advance, drain.replica_id)


def _stop_idle(turn: _Turn) -> None:
    for drain in tuple(idleness.ends(turn.snapshot)):
        turn.do(drain)
        turn.guarded(_advance, drain.replica_id)


def _let_go_of_room(turn: _Turn) -> None:
    snapshot = turn.snapshot
    if not snapshot.cluster.reservations:
        return
    have = wanting.counting(snapshot.cluster.replicas.values())
    lacking = {m.name for m in wanting.lacking(snapshot.catalog, have, asked=snapshot.asked)}
    for name, kept in snapshot.cluster.reservations.items():
        reason = evicting.why_void(kept, snapshot, is_lacking=name in lacking)
        if reason:
            turn.do(Unreserve(name, reason=reason))


def _forget_failures(turn: _Turn) -> None:
    snapshot = turn.snapshot
    if not snapshot.cluster.failures:
        return
    proven_since = _proven_since(snapshot)
    for name, failures in snapshot.cluster.failures.items():
        model = snapshot.catalog.models.get(name)
        if backing_off.is_void(failures, model=model, proven_since_at=proven_since.get(name)):
            turn.do(ForgetFailures(name, reason="its definition changed, or it serves again"))


def _proven_since(snapshot: Snapshot) -> dict[str, float]:
    """For each model that has served long enough without a break, since when."""
    latest_at = snapshot.now - snapshot.bounds.steady_after_s
    return {
        replica.model: replica.ready_at
        for replica in snapshot.cluster.replicas.values()
        if replica.ready_at is not None
        and replica.ready_at <= latest_at
        and replica.state is ReplicaState.READY
    }


def _place_one(turn: _Turn) -> None:
    """Place the oldest want that can be placed; the next pass sees what is left after it."""
    snapshot = turn.snapshot
    if not snapshot.settling.is_over:
        return
    have = wanting.counting(snapshot.cluster.replicas.values())
    open_wants = [
        model
        for model in wanting.lacking(snapshot.catalog, have, asked=snapshot.asked)
        if _may_place(model, snapshot, running=len(have.get(model.name, ())))
    ]
    if not open_wants:
        return
    since = snapshot.missing_since
    since, kept = snapshot.missing_since, snapshot.cluster.reservations
    open_wants.sort(
        key=lambda m: (
            m.name not in kept,
            since.get(m.name, snapshot.now),
            len(have.get(m.name, ())),
            m.name,
        )
    )
    space = _space(snapshot)
    for model in open_wants:
        turn.guarded(_place, (model, _space(snapshot, model) if model.name in kept else space))
        if turn.snapshot is not snapshot:
            return
    spare = evicting.spare(snapshot) if turn.refusals else ()
    for model in open_wants:
        if model.name in turn.refusals and (spare or model.name in kept):
            turn.guarded(_make_room, (model, space, spare))


def _space(snapshot: Snapshot, asker: Model | None = None) -> planning.Space:
    return planning.space(
        snapshot.cluster,
        now=snapshot.now,
        bounds=snapshot.bounds,
        asker="" if asker is None else asker.name,
    )


def _make_room(turn: _Turn, want: tuple[Model, planning.Space, Sequence[Replica]]) -> None:
    """Have an idle replica leave for a model that fits nowhere, which then waits for that."""
    model, space, spare = want
    step = evicting.step(model, turn.snapshot, space=space, candidates=spare)
    if step is not None:
        turn.do(step)
    if model.name in turn.snapshot.cluster.reservations:
        del turn.refusals[model.name]


def _may_place(model: Model, snapshot: Snapshot, *, running: int) -> bool:
    return all(gate.is_open for gate in gates.of(model, snapshot, running=running))


def _place(turn: _Turn, want: tuple[Model, planning.Space]) -> None:
    model, space = want
    snapshot = turn.snapshot
    outcome = planning.plan(space, model, failures=snapshot.cluster.failures.get(model.name))
    if outcome.placement is None:
        turn.refusals[model.name] = outcome.reason
        return
    turn.do(
        starting.place(
            outcome.placement,
            model=model,
            replica_id=starting.fresh_id(snapshot, model),
            now=snapshot.now,
            reason="requests wait for it" if _is_on_demand(model) else "fewer run than are wanted",
        )
    )


def _is_on_demand(model: Model) -> bool:
    return model.scaling is not None and model.scaling.is_on_demand
