"""How replicas follow a profile that was changed: one first, and the rest when it has proven; pure.

An operator asks for it (``llmgw ctl model roll``); an edit alone restarts nothing. Each old replica
serves until a new one does (``moving``). When the new profile fails, or finds no room, everything
that still serves stays as it is, and the roll says why it went no further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmgw.control.reconciler import draining
from llmgw.domain.actions import EndRoll, HaltRoll
from llmgw.domain.catalog import Model
from llmgw.domain.replicas import Replica, ReplicaState
from llmgw.domain.snapshots import Roll, Snapshot

_PRESENT = frozenset({ReplicaState.STARTING, ReplicaState.READY})
_NO_ROOM_AFTER_S = 30.0
"""A replacement that has not begun after this has found no room."""

_STARTUP_SLACK_S = 120.0


def steps(snapshot: Snapshot) -> Iterator[HaltRoll | EndRoll]:
    """The rolls that have come to their end, and those that may go no further."""
    for name, roll in snapshot.cluster.rolls.items():
        model = snapshot.catalog.models.get(name)
        if model is None:
            yield EndRoll(name, reason="it is no longer in the catalog")
        elif not snapshot.settling.is_over:
            continue  # a new leader does not know its replicas yet
        elif not stale(model, snapshot):
            yield EndRoll(name, reason="all its replicas are of the present profile")
        elif not roll.halted and (reason := _why_halt(roll, model, snapshot)):
            yield HaltRoll(name, reason=reason)


def stale(model: Model, snapshot: Snapshot) -> Sequence[Replica]:
    """The replicas of a model that were placed with an older version of their profile."""
    return [r for r in _present(model, snapshot) if draining.is_stale(r, model)]


def is_rolling(replica: Replica, snapshot: Snapshot) -> bool:
    """Whether it is to be replaced because its profile was changed."""
    roll = snapshot.cluster.rolls.get(replica.model)
    model = snapshot.catalog.models.get(replica.model)
    if roll is None or roll.halted or model is None:
        return False
    return draining.is_stale(replica, model)


def most_at_once(model: Model, snapshot: Snapshot) -> int:
    """How many of its replicas may be under replacement: one until a new one has proven itself."""
    fresh = [r for r in _present(model, snapshot) if not draining.is_stale(r, model)]
    proven_at = snapshot.now - snapshot.bounds.canary_s
    if any(r.ready_at is not None and r.ready_at <= proven_at for r in fresh):
        return snapshot.bounds.max_unavailable
    return 0 if fresh else 1


def may_interrupt(replica: Replica, snapshot: Snapshot) -> bool:
    """Whether it may go before another serves: it was said so, and none has found room."""
    roll, since_at = snapshot.cluster.rolls.get(replica.model), replica.moving_since_at
    if roll is None or not roll.may_interrupt or since_at is None:
        return False
    begun = any(
        r.state is ReplicaState.STARTING and not r.is_moving and r.model == replica.model
        for r in snapshot.cluster.replicas.values()
    )
    return not begun and snapshot.now - since_at >= _NO_ROOM_AFTER_S


def _present(model: Model, snapshot: Snapshot) -> Sequence[Replica]:
    replicas = snapshot.cluster.replicas.values()
    return [r for r in replicas if r.model == model.name and r.state in _PRESENT]


def _why_halt(roll: Roll, model: Model, snapshot: Snapshot) -> str:
    failures = snapshot.cluster.failures.get(model.name)
    if failures is not None and failures.failed_at >= roll.begun_at:
        profile = model.profile(failures.profile)
        if profile is not None and failures.profile_fp == profile.fingerprint(model=model):
            return f"{failures.replica_id} of the new profile failed: {failures.error}"
    grace_s = grace(model, snapshot)
    for replica in _present(model, snapshot):
        since_at = replica.moving_since_at
        if since_at is not None and snapshot.now - since_at >= grace_s:
            waited_s = snapshot.now - since_at
            return f"no replacement of {replica.replica_id} came to serve within {waited_s:.0f} s"
    return ""


def grace(model: Model | None, snapshot: Snapshot) -> float:
    """Seconds that a replacement has to come to serve."""
    profiles = () if model is None else model.profiles
    slowest_s = max((profile.startup_timeout_s for profile in profiles), default=0.0)
    return max(snapshot.bounds.move_grace_s, slowest_s + _STARTUP_SLACK_S)
