"""The next step of one replica: give up, stop, release, drain, or start again; pure.

Asked again after each step until there is none, so a pass that is cut off anywhere goes on where
it stopped. How many replicas there should be is not its question.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from llmgw.control.reconciler import backing_off, starting
from llmgw.domain import failure_texts
from llmgw.domain.actions import Drain, LoseShards, MarkFailed, Release, ResendStart, StopShards
from llmgw.domain.catalog import Model, Profile
from llmgw.domain.nodes import Liveness
from llmgw.domain.replicas import Replica, ReplicaState, Shard, ShardState
from llmgw.domain.snapshots import Snapshot

Step: TypeAlias = LoseShards | MarkFailed | Drain | StopShards | Release | ResendStart

_GIB = 1024**3
_FETCH_BASE_S = 300.0
_FETCH_S_PER_GIB = 20.0
_FETCH_MAX_S = 6 * 3600.0
_FETCH_STALL_S = 60.0
_RENEW_S = 30.0
"""How often ranks are told to wait on; well below ``supervisor.rendezvous_timeout``."""


class _Cause(enum.Enum):
    MODEL = enum.auto()
    ELSEWHERE = enum.auto()
    """Its node, or a stranger on its port."""


def next_step(replica: Replica, snapshot: Snapshot) -> Step | None:
    """What is to be done with this replica now, or nothing."""
    lost = _on_lost_node(replica, snapshot)
    if lost is not None:
        return lost
    state = replica.state
    if state is ReplicaState.FAILED and replica.failed_at is None:
        return _give_up(replica, snapshot, reason=_why_failed(replica), cause=_cause(replica))
    if replica.is_over:
        return Release(replica.replica_id, reason="nothing of it runs any more")
    if state is ReplicaState.FAILED or any(s.is_stop_asked for s in replica.shards):
        return _stop(replica, snapshot)
    if state is ReplicaState.DRAINING:
        return _finish_drain(replica, snapshot)
    model, profile = _definition(replica, snapshot)
    if model is None:
        return Drain(replica.replica_id, reason="its model is no longer in the catalog")
    if profile is None and replica.ready_at is None:
        gone = f"its profile {replica.profile} is no longer in the catalog"
        return Drain(replica.replica_id, reason=gone)
    if state is ReplicaState.STARTING and profile is not None:
        return _hurry(replica, snapshot, model=model, profile=profile)
    if (hang := _hang(replica, snapshot)) is not None:
        return _give_up(replica, snapshot, reason=hang, cause=_Cause.MODEL)
    return None


def _on_lost_node(replica: Replica, snapshot: Snapshot) -> LoseShards | None:
    for shard in replica.shards:
        node = snapshot.cluster.nodes.get(shard.node_id)
        if shard.state.is_final or node is None or node.liveness is not Liveness.LOST:
            continue
        silent_s = snapshot.now - node.last_seen_at
        if _serves_unheard(replica, snapshot, silent_s=silent_s):
            continue
        reason = f"node {shard.node_id} is lost: silent for {silent_s:.0f} s"
        return LoseShards(replica.replica_id, node_id=shard.node_id, reason=reason)
    return None


def _serves_unheard(replica: Replica, snapshot: Snapshot, *, silent_s: float) -> bool:
    """Whether clients get answers from it though its node says nothing: then only we are cut off.

    That is believed for a while, or until nobody gets any more.
    """
    bounds, seen = snapshot.bounds, snapshot.traffic.endpoints.get(replica.replica_id)
    if seen is None or silent_s >= bounds.unheard_most * bounds.lost_after_s:
        return False
    return seen.is_answering(now=snapshot.now, within_s=bounds.answered_within_s)


def _why_failed(replica: Replica) -> str:
    for shard in replica.shards:
        if shard.state is ShardState.FAILED:
            told = failure_texts.failure(
                shard.error or "failed", exit_code=shard.exit_code, last_output=shard.last_output
            )
            return f"shard {shard.shard_id} on {shard.node_id}: {told}"
        if shard.state is ShardState.STOPPED and not shard.is_stop_asked:
            return f"shard {shard.shard_id} on {shard.node_id} stopped without being asked"
    return f"it has {len(replica.shards)} of {replica.want_shards} shards"


def _cause(replica: Replica) -> _Cause:
    ended = [s for s in replica.shards if s.state.is_final and not s.is_stop_asked]
    is_blameless = ended and all(s.is_gone or s.is_port_taken for s in ended)
    return _Cause.ELSEWHERE if is_blameless else _Cause.MODEL


def _give_up(replica: Replica, snapshot: Snapshot, *, reason: str, cause: _Cause) -> MarkFailed:
    """Mark it failed; its model is to blame unless it was leaving or the cause lies elsewhere."""
    model, profile = _definition(replica, snapshot)
    is_blameless = cause is _Cause.ELSEWHERE or replica.drain_since_at is not None
    if model is None or profile is None or is_blameless:
        return MarkFailed(replica.replica_id, reason=reason)
    failures = backing_off.after_failure(replica, model=model, reason=reason, snapshot=snapshot)
    return MarkFailed(replica.replica_id, reason=reason, failures=failures)


def _stop(replica: Replica, snapshot: Snapshot) -> StopShards | Release | None:
    """Ask each running shard to end, again while it does not confirm, and not for ever."""
    now, bounds = snapshot.now, snapshot.bounds
    running = [s for s in replica.shards if not s.state.is_final]
    due = [s for s in running if not s.is_stop_asked or _is_overdue(s, snapshot)]
    asked_at = max((now if s.stop_asked_at is None else s.stop_asked_at) for s in running)
    if now - asked_at >= bounds.release_after_s:
        silent = ", ".join(s.shard_id for s in running)
        return Release(replica.replica_id, reason=f"no word of the end of {silent}")
    if not due:
        return None
    reason = replica.failure or replica.drain_reason or "the rest of it is to end"
    return StopShards(replica.replica_id, tuple(s.shard_id for s in due), reason=reason)


def _is_overdue(shard: Shard, snapshot: Snapshot, *, after_s: float | None = None) -> bool:
    """An order was not answered, and its node could hear another one."""
    node = snapshot.cluster.nodes.get(shard.node_id)
    if node is None or not node.is_connected:
        return False
    bound_s = snapshot.bounds.resend_after_s if after_s is None else after_s
    return shard.ordered_at is None or snapshot.now - shard.ordered_at >= bound_s


def _finish_drain(replica: Replica, snapshot: Snapshot) -> StopShards | None:
    """End it at once if it never served, else when its requests are done or had their time.

    The gateways know best whether they are done; where none is asked, its engine's word counts.
    """
    since_at = replica.drain_since_at
    grace_s = snapshot.bounds.drain_grace_s
    inflight, leader = snapshot.draining_inflight.get(replica.replica_id), replica.leader
    is_done = leader is not None and leader.is_drained if inflight is None else not inflight
    is_due = since_at is None or is_done or snapshot.now - since_at >= grace_s
    if replica.ready_at is not None and not is_due:
        return None
    running = tuple(s.shard_id for s in replica.shards if not s.state.is_final)
    return StopShards(replica.replica_id, running, reason=replica.drain_reason)


def _hang(replica: Replica, snapshot: Snapshot) -> str | None:
    """Why a replica that answers counts as hung; one that answers nobody is its agent's to end."""
    seen = snapshot.traffic.endpoints.get(replica.replica_id)
    is_stalled = seen is not None and seen.is_stalled and snapshot.traffic.has_latest_table
    if seen is None or seen.ejected_at is None or not is_stalled:
        return None
    still_s = snapshot.now - seen.ejected_at
    if still_s < snapshot.bounds.hang_after_s:
        return None
    return f"no progress: it answers and has work, and has done none of it for {still_s:.0f} s"


def _definition(replica: Replica, snapshot: Snapshot) -> tuple[Model | None, Profile | None]:
    model = snapshot.catalog.models.get(replica.model)
    return model, None if model is None else model.profile(replica.profile)


def _hurry(
    replica: Replica, snapshot: Snapshot, *, model: Model, profile: Profile
) -> MarkFailed | ResendStart | None:
    """Give up what does not come to serve; ask again for what was never heard of."""
    if _is_late(replica, snapshot, profile=profile):
        waited_s = snapshot.now - replica.starting_since_at
        reason = (
            f"not ready after {waited_s:.0f} s (startup_timeout {profile.startup_timeout_s:g} s)"
        )
        return _give_up(replica, snapshot, reason=reason, cause=_Cause.MODEL)
    for shard in replica.shards:
        is_unheard = shard.state is ShardState.PENDING and not shard.is_reported
        if not is_unheard or shard.start_orders >= snapshot.bounds.start_orders:
            continue
        spec = starting.spec_of(replica, shard, model=model, profile=profile)
        if _is_overdue(shard, snapshot) and spec.profile_fp == replica.profile_fp:
            return ResendStart(spec, node_id=shard.node_id, reason="its node has not answered")
    return _hold_together(replica, snapshot, model=model, profile=profile)


def _hold_together(
    replica: Replica, snapshot: Snapshot, *, model: Model, profile: Profile
) -> ResendStart | None:
    """Ranks wait for the first one, and not for ever: they are told while that one still fetches.

    A start that comes again renews their patience.
    """
    leader = next((s for s in replica.shards if s.rank == 0), None)
    is_fetching = leader is not None and leader.fetch is not None
    if leader is None or not is_fetching or _is_stalled(leader, snapshot.now):
        return None
    for shard in replica.shards:
        waits = shard is not leader and shard.state is ShardState.PENDING and shard.fetch is None
        spec = starting.spec_of(replica, shard, model=model, profile=profile)
        is_due = waits and _is_overdue(shard, snapshot, after_s=_RENEW_S)
        if is_due and spec.profile_fp == replica.profile_fp:
            reason = f"it waits for {leader.shard_id}, which still fetches"
            return ResendStart(spec, node_id=shard.node_id, reason=reason)
    return None


def _is_late(replica: Replica, snapshot: Snapshot, *, profile: Profile) -> bool:
    """Past the startup timeout, or past what its size allows while a download gets on."""
    waited_s = snapshot.now - replica.starting_since_at
    if waited_s <= profile.startup_timeout_s:
        return False
    if any(_is_stalled(shard, snapshot.now) for shard in replica.shards):
        return True
    allowance_s = max((_fetch_allowance_s(s) for s in replica.shards), default=0.0)
    return waited_s > profile.startup_timeout_s + allowance_s


def _is_stalled(shard: Shard, now: float) -> bool:
    rose_at = shard.fetch_rose_at
    return shard.fetch is not None and (rose_at is None or now - rose_at > _FETCH_STALL_S)


def _fetch_allowance_s(shard: Shard) -> float:
    if not shard.fetch_bytes:
        return 0.0
    return min(_FETCH_MAX_S, _FETCH_BASE_S + _FETCH_S_PER_GIB * shard.fetch_bytes / _GIB)
