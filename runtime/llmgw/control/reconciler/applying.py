"""Carries actions out: records what an action changes, then sends its orders.

Recording comes first, so an order that gets through is never about something unknown here. An order
that cannot be sent is no failure of the pass: a start is written down as refused, all others are
sent again when their node has a stream.
"""

from __future__ import annotations

from collections.abc import Callable

from llmgw.control.inventory import claims as claiming
from llmgw.control.reconciler import effects, reporting
from llmgw.control.reconciler.ports import Dispatcher
from llmgw.domain.actions import (
    Action,
    Drain,
    EndRoll,
    Evict,
    ExpireNode,
    ForgetFailures,
    HaltRoll,
    LoseShards,
    MarkFailed,
    Move,
    Place,
    Release,
    ResendStart,
    Stay,
    StopShards,
    StopStray,
    Unreserve,
)
from llmgw.domain.replicas import PORT_IN_USE, Replica, ShardSpec
from llmgw.domain.snapshots import Cluster
from llmgw.errors import NotConnected
from llmgw.kit import logs

_log = logs.get(__name__)


class Applier:
    """Applies one action at a time to the cluster as it is by then."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        """``dispatcher`` reaches the nodes."""
        self._dispatcher = dispatcher

    def apply(self, cluster: Cluster, action: Action, *, now: float) -> Cluster:
        """The cluster with the action done; unchanged when what it rests on has changed."""
        if not is_still_right(cluster, action, now=now):
            _log.info("action_void", action=type(action).__name__, reason=action.reason)
            return cluster
        before, cluster = cluster, effects.after(cluster, action, now=now)
        _note(action)
        match action:
            case Place():
                return self._start_all(cluster, action, now=now)
            case ResendStart():
                return self._start(cluster, action.node_id, action.spec, now=now)
            case StopShards():
                self._stop(before.replicas[action.replica_id], action)
            case Drain() | Evict():
                self._drain(before.replicas[action.replica_id])
            case StopStray():
                self._send_stop(action.node_id, action.shard_id)
            case (
                ExpireNode()
                | LoseShards()
                | MarkFailed()
                | Move()
                | Stay()
                | Release()
                | ForgetFailures()
                | Unreserve()
                | HaltRoll()
                | EndRoll()
            ):
                pass
        return cluster

    def _start_all(self, cluster: Cluster, action: Place, *, now: float) -> Cluster:
        """Rank 0 first: the others meet at its port."""
        nodes = {s.shard_id: s.node_id for s in action.replica.shards}
        for spec in sorted(action.specs, key=lambda s: s.rank):
            cluster = self._start(cluster, nodes[spec.shard_id], spec, now=now)
        return cluster

    def _start(self, cluster: Cluster, node_id: str, spec: ShardSpec, *, now: float) -> Cluster:
        shard_id = spec.shard_id
        refusal = _sent("start", node_id, shard_id, lambda: self._dispatcher.start(node_id, spec))
        if refusal is None:
            return cluster
        return reporting.refused(
            cluster,
            replica_id=spec.replica_id,
            shard_id=shard_id,
            error=f"its start could not be sent: {refusal}",
            now=now,
        )

    def _stop(self, replica: Replica, action: StopShards) -> None:
        for shard in replica.shards:
            if shard.shard_id in action.shard_ids and not shard.state.is_final:
                self._send_stop(shard.node_id, shard.shard_id)

    def _send_stop(self, node_id: str, shard_id: str) -> None:
        _sent("stop", node_id, shard_id, lambda: self._dispatcher.stop(node_id, shard_id))

    def _drain(self, replica: Replica) -> None:
        for shard in replica.shards:
            if not shard.state.is_final:
                self._send_drain(shard.node_id, shard.shard_id)

    def _send_drain(self, node_id: str, shard_id: str) -> None:
        _sent("drain", node_id, shard_id, lambda: self._dispatcher.drain(node_id, shard_id))


def _sent(order: str, node_id: str, shard_id: str, send: Callable[[], None]) -> str | None:
    """Send one order; why it could not be sent, if so."""
    try:
        send()
    except NotConnected as error:
        _log.info(f"{order}_not_sent", node=node_id, shard=shard_id, reason=error.message)
        return error.message
    except Exception as fault:  # noqa: BLE001 - what was recorded must stand, whatever fails here
        _log.error(f"{order}_failed", node=node_id, shard=shard_id, error=repr(fault), exc=fault)
        return repr(fault)
    return None


def is_still_right(cluster: Cluster, action: Action, *, now: float) -> bool:
    """Whether an action that was decided on an earlier cluster holds on this one."""
    match action:
        case ExpireNode():
            node = cluster.nodes.get(action.node_id)
            return node is not None and node.last_seen_at == action.last_seen_at
        case Place():
            return not _clashes(cluster, action.replica, now=now)
        case StopStray():
            return (action.node_id, action.shard_id) in cluster.strays
        case ForgetFailures():
            return action.model in cluster.failures
        case Unreserve():
            return action.model in cluster.reservations
        case HaltRoll() | EndRoll():
            return action.model in cluster.rolls
        case (
            LoseShards()
            | MarkFailed()
            | Drain()
            | Evict()
            | Move()
            | Stay()
            | StopShards()
            | Release()
            | ResendStart()
        ):
            return action.replica_id in cluster.replicas


def _clashes(cluster: Cluster, replica: Replica, *, now: float) -> bool:
    """Whether somebody else has come to hold what a placement counts on."""
    if replica.replica_id in cluster.replicas:
        return True
    book = claiming.by_node(cluster, now=now)
    for shard in replica.shards:
        claims = book.get(shard.node_id)
        if (
            claims is None
            or claims.taken_ports.intersection(replica.ports_of(shard))
            or claims.gpus.keys() & {*shard.gpu_indices}
        ):
            return True
    return False


def _note(action: Action) -> None:
    """One log line an action, with the thing that it is about."""
    match action:
        case ExpireNode():
            _log.warning(
                "node_expired", node=action.node_id, state=action.liveness, reason=action.reason
            )
        case Place():
            replica = action.replica
            _log.info(
                "replica_placed",
                replica=replica.replica_id,
                model=replica.model,
                profile=replica.profile,
                nodes=" ".join(s.node_id for s in replica.shards),
                pool=replica.pool,
            )
        case MarkFailed():
            _note_failure(action)
        case Evict():
            _log.info(
                "replica_evicted",
                replica=action.replica_id,
                room_for=action.reservation.model,
                reason=action.reason,
            )
        case LoseShards() | Drain() | Move() | Stay() | StopShards() | Release() | ResendStart():
            _log.info(_EVENTS[type(action)], replica=action.replica_id, reason=action.reason)
        case StopStray():
            _log.info(
                "stray_stopped", node=action.node_id, shard=action.shard_id, reason=action.reason
            )
        case HaltRoll():
            _log.warning("roll_halted", model=action.model, reason=action.reason)
        case ForgetFailures() | EndRoll() | Unreserve():
            _log.info(_EVENTS[type(action)], model=action.model, reason=action.reason)


def _note_failure(action: MarkFailed) -> None:
    if PORT_IN_USE in action.reason:
        _log.info("port_avoided", replica=action.replica_id, reason=action.reason)
        return
    failures = action.failures
    _log.warning(
        "replica_failed",
        replica=action.replica_id,
        reason=action.reason,
        in_a_row=None if failures is None else failures.count,
    )


_EVENTS: dict[type, str] = {
    ForgetFailures: "failures_forgotten",
    EndRoll: "roll_done",
    Unreserve: "room_given_up",
    LoseShards: "replica_lost_shards",
    Drain: "replica_draining",
    Move: "replica_moving",
    Stay: "replica_stays",
    StopShards: "replica_stopping",
    Release: "replica_released",
    ResendStart: "start_sent_again",
}
