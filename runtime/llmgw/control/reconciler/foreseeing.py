"""Pass after pass in a world that is kind, until nothing is left to do; pure.

Every start serves at once, every stop is confirmed, requests end, and nodes that speak go on
speaking. ``decide`` is that of the live pass, so what it would do is what is foreseen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llmgw.control.reconciler import deciding, effects, narrating, reporting, wanting
from llmgw.domain import names
from llmgw.domain.nodes import Liveness
from llmgw.domain.outlooks import PassView
from llmgw.domain.replicas import Replica, ReplicaState, Shard, ShardReport, ShardState
from llmgw.domain.snapshots import Cluster, Snapshot

_MOST_PASSES = 500
_STEP_S, _LONGEST_STEP_S = 1.0, 120.0
_HORIZON_S = 6 * 3600.0
"""How far is looked at most."""

_ON_ITS_WAY = frozenset({ReplicaState.STARTING, ReplicaState.DRAINING, ReplicaState.FAILED})


class World:
    """The snapshot as it would be, from pass to pass."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Begin here, with no request in the way of an end."""
        quiet = {
            replica_id: replace(seen, inflight=0, ejected_at=None, is_stalled=False)
            for replica_id, seen in snapshot.traffic.endpoints.items()
        }
        traffic = replace(snapshot.traffic, endpoints=quiet)
        self.snapshot = replace(snapshot, traffic=traffic, draining_inflight={})
        self.passes: list[PassView] = []
        self.is_at_rest = False
        """Nothing is left to do, and nothing falls due."""
        self._begun_at = snapshot.now
        self._step_s = _STEP_S

    def run(self) -> None:
        """All passes, as far as it is looked."""
        for number in range(_MOST_PASSES):
            before = self.snapshot.cluster
            self._pass(number)
            self._answer()
            is_still = self.snapshot.cluster is before
            if is_still and not self._is_waiting():
                self.is_at_rest = True
                return
            self._step_s = min(2 * self._step_s, _LONGEST_STEP_S) if is_still else _STEP_S
            if self._after_s + self._step_s > _HORIZON_S:
                return
            self._let_pass(self._step_s)

    @property
    def _after_s(self) -> float:
        return self.snapshot.now - self._begun_at

    def _pass(self, number: int) -> None:
        snapshot = self.snapshot
        missing_since = wanting.noted(
            snapshot.missing_since,
            catalog=snapshot.catalog,
            replicas=snapshot.cluster.replicas.values(),
            asked=snapshot.asked,
            now=snapshot.now,
        )
        seed = snapshot.seed + number
        decision = deciding.decide(replace(snapshot, missing_since=missing_since, seed=seed))
        cluster, told = snapshot.cluster, []
        for one in decision.actions:
            told.append(narrating.action(one, cluster))
            cluster = effects.after(cluster, one, now=snapshot.now)
        if told:
            self.passes.append(PassView(after_s=self._after_s, actions=tuple(told)))
        self.snapshot = replace(snapshot, missing_since=missing_since, cluster=cluster)

    def _answer(self) -> None:
        """Nodes do at once what they were told."""
        cluster, now = self.snapshot.cluster, self.snapshot.now
        for report in list(_reports(cluster)):
            cluster = reporting.reported(
                cluster, report, now=now, avoid_s=self.snapshot.bounds.avoid_s
            )
        self.snapshot = replace(self.snapshot, cluster=cluster)

    def _is_waiting(self) -> bool:
        """Whether something would fall due if only time passed."""
        cluster = self.snapshot.cluster
        lacks = self.snapshot.missing_since
        return (
            not self.snapshot.settling.is_over
            or any(r.is_moving or r.state in _ON_ITS_WAY for r in cluster.replicas.values())
            or any(
                name in lacks and failed.until_at > self.snapshot.now
                for name, failed in cluster.failures.items()
            )
        )

    def _let_pass(self, step_s: float) -> None:
        """Who spoke has spoken again, what was used is used again; who is silent stays so."""
        cluster, traffic = self.snapshot.cluster, self.snapshot.traffic
        nodes = {
            node_id: replace(node, last_seen_at=node.last_seen_at + step_s)
            for node_id, node in cluster.nodes.items()
        }
        used = {
            replica_id: seen
            if seen.last_used_at is None
            else replace(seen, last_used_at=seen.last_used_at + step_s)
            for replica_id, seen in traffic.endpoints.items()
        }
        self.snapshot = replace(
            self.snapshot,
            now=self.snapshot.now + step_s,
            cluster=replace(cluster, nodes=nodes),
            traffic=replace(traffic, endpoints=used),
            watched_since={r: at + step_s for r, at in self.snapshot.watched_since.items()},
            settling=replace(self.snapshot.settling, is_over=True),
        )


def _reports(cluster: Cluster) -> Iterator[ShardReport]:
    speaking = {
        node_id
        for node_id, node in cluster.nodes.items()
        if node.liveness is Liveness.READY and node.is_connected
    }
    for replica in cluster.replicas.values():
        for shard in replica.shards:
            if shard.node_id in speaking and not shard.state.is_final:
                yield from _answers(replica, shard)
    for node_id, shard_id in cluster.strays:
        if node_id in speaking:
            yield ShardReport(
                node_id=node_id,
                replica_id=names.replica_of(shard_id),
                shard_id=shard_id,
                state=ShardState.STOPPED,
            )


def _answers(replica: Replica, shard: Shard) -> Iterator[ShardReport]:
    if shard.is_stop_asked:
        state, is_drained = ShardState.STOPPED, False
    elif replica.drain_since_at is not None:
        state, is_drained = ShardState.DRAINING, True
    else:
        state, is_drained = ShardState.READY, False
    if state is not shard.state or is_drained is not shard.is_drained:
        yield ShardReport(
            node_id=shard.node_id,
            replica_id=replica.replica_id,
            shard_id=shard.shard_id,
            state=state,
            is_drained=is_drained,
        )
