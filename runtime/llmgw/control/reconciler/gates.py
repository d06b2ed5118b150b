"""What a whole model must pass before any node is looked at; pure.

The pass acts on it and ``explain`` prints it, in the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmgw.control.reconciler import settling, wanting
from llmgw.domain import failure_texts
from llmgw.domain.catalog import Model
from llmgw.domain.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition: whether it holds, and its figures."""

    name: str
    is_open: bool
    detail: str = ""


def of(model: Model, snapshot: Snapshot, *, running: int) -> tuple[Gate, ...]:
    """Every gate of a model of which ``running`` replicas start or are ready."""
    return (
        _leading(snapshot),
        _wanted(model),
        _lacking(model, snapshot, running=running),
        _settled(snapshot),
        _rested(model, snapshot),
        _roomy(model, snapshot),
        _unbraked(snapshot),
    )


def _leading(snapshot: Snapshot) -> Gate:
    if snapshot.is_leader:
        return Gate("leader", is_open=True)
    if snapshot.is_lapsed:
        detail = "its lease has run out and its store does not answer, so nothing new is placed"
        return Gate("leader", is_open=False, detail=detail)
    return Gate("leader", is_open=False, detail="this control plane is a standby")


def _wanted(model: Model) -> Gate:
    if not model.profiles:
        return Gate(
            "wanted", is_open=False, detail="it has no profile, so there is no way to run it"
        )
    if model.scaling is None or model.scaling.is_off:
        return Gate("wanted", is_open=False, detail="it is off: scaling has no min")
    return Gate("wanted", is_open=True)


def _lacking(model: Model, snapshot: Snapshot, *, running: int) -> Gate:
    wanted = wanting.wanted(model, running=running, asked=snapshot.asked)
    detail = f"{running} of {wanted} run or start"
    if not wanted and model.scaling is not None and model.scaling.is_on_demand:
        detail = "it is loaded when somebody asks for it, and nobody does"
    return Gate("missing", running < wanted, detail)


def _settled(snapshot: Snapshot) -> Gate:
    if snapshot.settling.is_over:
        return Gate("settled", is_open=True)
    left_s = settling.left_s(
        snapshot.settling, now=snapshot.now, window_s=snapshot.bounds.settle_window_s
    )
    count = len(snapshot.cluster.nodes)
    detail = f"waiting for nodes to return: {left_s:.0f} s left, {count} node(s) registered"
    return Gate("settled", is_open=False, detail=detail)


def _rested(model: Model, snapshot: Snapshot) -> Gate:
    failures = snapshot.cluster.failures.get(model.name)
    if failures is None or failures.until_at <= snapshot.now:
        return Gate("backoff", is_open=True)
    left_s = failures.until_at - snapshot.now
    told = failure_texts.failure(
        failures.error, exit_code=failures.exit_code, last_output=failures.last_output
    )
    detail = f"failed {failures.count} time(s), next try in {math.ceil(left_s)} s: {told}"
    return Gate("backoff", is_open=False, detail=detail)


def _unbraked(snapshot: Snapshot) -> Gate:
    """Shut while many nodes are silent at once."""
    brake = snapshot.brake
    if brake.since_at is None:
        return Gate("brake", is_open=True)
    detail = (
        f"{len(brake.held)} nodes fell silent at once, so nothing is placed until half of them are "
        f"back, or for {brake.since_at + snapshot.bounds.brake_max_s - snapshot.now:.0f} s"
    )
    return Gate("brake", is_open=False, detail=detail)


def _roomy(model: Model, snapshot: Snapshot) -> Gate:
    """Shut while others are leaving to make room."""
    replicas = snapshot.cluster.replicas.values()
    leaving = sorted(r.replica_id for r in replicas if r.evicted_for == model.name)
    if not leaving:
        return Gate("room", is_open=True)
    return Gate("room", is_open=False, detail=f"{', '.join(leaving)} is leaving to make room")
