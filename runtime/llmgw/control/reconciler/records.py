"""The cluster as it is known at this moment, and what the words of agents change in it.

Lives on the control plane's event loop. The cluster is one frozen value, replaced at each change:
whoever holds one reads it in peace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from llmgw.control.inventory import fleet, liveness
from llmgw.control.reconciler import adopting, reporting
from llmgw.control.reconciler.absent import Absent
from llmgw.control.reconciler.ports import CatalogSource
from llmgw.control.reconciler.working import WorkBook, WorkSeen
from llmgw.domain import names
from llmgw.domain.nodes import (
    HeartbeatFacts,
    Liveness,
    Node,
    NodeFacts,
    NodeTarget,
    never_registered,
    not_let_in,
)
from llmgw.domain.replicas import PORT_IN_USE, ReplicaState, RunningShard, ShardReport
from llmgw.domain.snapshots import Bounds, Cluster, Roll
from llmgw.domain.stored import NodeFlag
from llmgw.errors import Conflict
from llmgw.kit import logs
from llmgw.kit.clock import Clock

_log = logs.get(__name__)


class Records:
    """Hears what agents say; ``on_change`` is called when a pass should look."""

    def __init__(
        self,
        *,
        catalog: CatalogSource,
        clock: Clock,
        bounds: Bounds,
        served: Collection[str],
        on_change: Callable[[], None],
    ) -> None:
        """``served`` are replicas that an earlier process had published as ready."""
        self._cluster = Cluster()
        self._heard: dict[str, Node] = {}
        """Nodes that have changed since somebody looked at the cluster."""
        self._flags: dict[str, NodeFlag] = {}
        """Operators' words on nodes, those that have not registered yet included."""
        self._banned: frozenset[str] = frozenset()
        self._absent = Absent(bounds)
        self._catalog = catalog
        self._clock = clock
        self._bounds = bounds
        self._served = frozenset(served)
        self._on_change = on_change
        self._work = WorkBook()

    @property
    def cluster(self) -> Cluster:
        """The cluster now, as one value; what nodes said since the last look is taken in here.

        So the beat of one node costs nothing of all the others, however many there are.
        """
        if self._heard:
            nodes = {**self._cluster.nodes, **self._heard}
            self._cluster, self._heard = replace(self._cluster, nodes=nodes), {}
        return self._cluster

    @cluster.setter
    def cluster(self, cluster: Cluster) -> None:
        if len(cluster.replicas) < len(self._cluster.replicas):
            self._work.keep_only(cluster.replicas)
        self._cluster = cluster

    def let_go(self, *, served: Collection[str]) -> None:
        """Know of no node any more, so that nothing old is believed when they come back.

        ``served`` are replicas that are published as ready meanwhile.
        """
        self._served = frozenset(served)
        self._heard = {}
        self._flags = {}
        self._banned = frozenset()
        self._absent.clear()
        self.cluster = Cluster()

    @property
    def absent(self) -> Mapping[str, Node]:
        """Nodes that are known from before and have not registered yet."""
        return self._absent.nodes(now=self._clock.monotonic())

    @property
    def banned(self) -> frozenset[str]:
        """Nodes that are not let in."""
        return self._banned

    def recall(
        self,
        *,
        flags: Mapping[str, NodeFlag],
        rolls: Mapping[str, Roll],
        known: Mapping[str, Node],
        banned: Collection[str],
    ) -> None:
        """What operators had said, in place of all that is known of it here.

        ``known`` are the nodes that were written down; those that are not there are absent.
        """
        self._flags, self._banned = dict(flags), frozenset(banned)
        plain = {name: _flagged(node, flags.get(name)) for name, node in known.items()}
        there = self.cluster.nodes.keys()
        self._absent.recall(plain, besides=there, now=self._clock.monotonic())
        nodes = {
            node_id: _flagged(node, flags.get(node_id))
            for node_id, node in self.cluster.nodes.items()
        }
        self.cluster = replace(self.cluster, nodes=nodes, rolls=dict(rolls))
        self._on_change()

    def register(self, facts: NodeFacts, running: tuple[RunningShard, ...]) -> tuple[str, ...]:
        """Take a node and what it runs into the cluster; the shard ids that it shall stop.

        ``Banned`` for one that is not let in.
        """
        if facts.node_id in self._banned:
            raise not_let_in(facts.node_id)
        now = self._clock.monotonic()
        held = self.cluster.nodes.get(facts.node_id)
        self._warn_of_slow_beats(facts, before=None if held is None else held.facts)
        node = fleet.registered(held, facts, now=now)
        if held is None:
            node = _flagged(node, self._flags.get(facts.node_id))
        self._absent.drop(facts.node_id)
        nodes = {**self.cluster.nodes, facts.node_id: node}
        adoption = adopting.adopt(
            replace(self.cluster, nodes=nodes),
            node_id=facts.node_id,
            reported=running,
            measure=adopting.Measure(
                catalog=self._catalog.current(),
                served=self._served,
                release_after_s=self._bounds.release_after_s,
            ),
            now=now,
        )
        self.cluster = adoption.cluster
        _note(facts.node_id, adoption)
        self._on_change()
        return tuple(adoption.unclaimed)

    def heartbeat(self, node_id: str, beat: HeartbeatFacts) -> bool:
        """Keep a node alive; false when it must register again first."""
        node = self._heard.get(node_id) or self._cluster.nodes.get(node_id)
        if node is None or node.liveness is Liveness.LOST or node_id in self._banned:
            return False
        now = self._clock.monotonic()
        heard = fleet.heard(node, beat, now=now)
        self._work.note(beat.shard_work, now=now)
        self._heard[node_id] = heard
        if fleet.qualifies_anew(node.facts, heard.facts):
            _log.info(
                "node_changed",
                node=node_id,
                memory_mb=heard.facts.memory_total_mb,
                engines=" ".join(sorted(heard.facts.engine_versions)),
                weights=len(heard.facts.weights),
            )
            self._on_change()
        elif node.liveness is not Liveness.READY:
            _log.info("node_back", node=node_id)
            self._on_change()
        return True

    def work_in(self, beat: HeartbeatFacts) -> Mapping[str, WorkSeen]:
        """What agents saw by now of the work of each replica that a beat tells of."""
        told = dict.fromkeys(names.replica_of(one.shard_id) for one in beat.shard_work)
        replicas = [r for one in told if (r := self._cluster.replicas.get(one)) is not None]
        return {
            replica.replica_id: seen
            for replica in replicas
            if (seen := self._work.of(replica)) is not None
        }

    def shard_report(self, report: ShardReport) -> None:
        """Take in where a shard stands."""
        before = self.cluster
        self.cluster = reporting.reported(
            before, report, now=self._clock.monotonic(), avoid_s=self._bounds.avoid_s
        )
        replica = self.cluster.replicas.get(report.replica_id)
        held = before.replicas.get(report.replica_id)
        state = None if replica is None else replica.state
        if held is None or held.state is not state or report.state.is_final or report.is_drained:
            _level(report, state)(
                "shard_reported",
                node=report.node_id,
                shard=report.shard_id,
                state=report.state,
                replica_state=state,
                error=report.error or None,
                exit_code=report.exit_code,
            )
            self._on_change()

    def stream_lost(self, node_id: str) -> None:
        """A node cannot be told anything for now; only silence makes it unreachable."""
        node = self._heard.get(node_id) or self._cluster.nodes.get(node_id)
        if node is not None:
            self._heard[node_id] = fleet.disconnected(node, now=self._clock.monotonic())

    def flag_for(
        self, node_id: str, *, target: NodeTarget, reason: str, actor: str = ""
    ) -> NodeFlag:
        """What a word on a node comes to; ``Unknown`` when it has never registered."""
        word = fleet.flagged(self._node(node_id), target=target, reason=reason, actor=actor)
        return NodeFlag(target, word.flag_reason, actor, self._clock.wall())

    def flag(self, node_id: str, flag: NodeFlag) -> None:
        """An operator's word on a node; ``Unknown`` when it has never registered."""
        node = self._node(node_id)
        self._flags[node_id] = flag
        flagged = _flagged(node, flag)
        if flagged == node:
            return
        if node_id in self.cluster.nodes:
            self.cluster = replace(self.cluster, nodes={**self.cluster.nodes, node_id: flagged})
        else:
            self._absent.put(flagged)
        _log.info(
            "node_flagged",
            node=node_id,
            target=flag.target,
            reason=flag.reason or None,
            actor=flag.actor or None,
        )
        self._on_change()

    def check_known(self, node_id: str) -> None:
        """``Unknown`` when a node has never registered."""
        self._node(node_id)

    def ban(self, node_id: str, *, is_banned: bool) -> None:
        """Let a node in no more, or again; ``Unknown`` when it has never registered."""
        self._node(node_id)
        self._banned = self._banned - {node_id} | ({node_id} if is_banned else set())
        _log.warning("node_banned" if is_banned else "node_unbanned", node=node_id)

    def roll(self, roll: Roll) -> None:
        """An operator wants the replicas of a model to follow its profile."""
        self.cluster = replace(self.cluster, rolls={**self.cluster.rolls, roll.model: roll})
        _log.info("roll_begun", model=roll.model, may_interrupt=roll.may_interrupt)
        self._on_change()

    def retry(self, model: str) -> None:
        """An operator has mended what made a model fail: its failures count no more."""
        if model not in self.cluster.failures:
            return
        failures = {name: one for name, one in self.cluster.failures.items() if name != model}
        self.cluster = replace(self.cluster, failures=failures)
        _log.info("retried", model=model)
        self._on_change()

    def check_forget(self, node_id: str) -> None:
        """``Conflict`` while a node is connected, may come or holds something; ``Unknown``."""
        if self._node(node_id).is_connected:
            raise Conflict(
                f"{node_id} is connected and would register again: stop its agent first, or keep "
                f"it out with 'llmgw ctl ban {node_id}'"
            )
        absent = self._absent.find(node_id, now=self._clock.monotonic())
        if absent is not None and absent.liveness is not Liveness.LOST:
            raise Conflict(
                f"{node_id} may register yet, for this control plane has just begun to listen; "
                f"say it again in {self._bounds.lost_after_s:g} s"
            )
        held = _held(self.cluster, node_id)
        if held:
            raise Conflict(
                f"{node_id} still holds {', '.join(held)}; 'llmgw ctl drain {node_id}' moves them"
            )

    def forget(self, node_id: str) -> None:
        """Let go of a node that is gone, and of what was said of it."""
        self.check_forget(node_id)
        self._flags.pop(node_id, None)
        self._banned -= {node_id}
        self._absent.drop(node_id)
        rest = {key: node for key, node in self.cluster.nodes.items() if key != node_id}
        self.cluster = replace(self.cluster, nodes=rest)
        _log.info("node_forgotten", node=node_id)
        self._on_change()

    def forget_silent(self, *, for_s: float) -> None:
        """Forget nodes that have been lost for so long, and of which nobody has said anything."""
        now = self._clock.monotonic()
        for node_id, node in {**self.cluster.nodes, **self.absent}.items():
            is_idle = fleet.wanted_of(node) is NodeTarget.READY and node_id not in self._banned
            is_gone = node.liveness is Liveness.LOST and not node.is_connected
            if is_idle and is_gone and now - node.last_seen_at >= for_s:
                with suppress(Conflict):
                    self.forget(node_id)

    def _warn_of_slow_beats(self, facts: NodeFacts, *, before: NodeFacts | None) -> None:
        """Say once that a node beats too slowly for the setting, and what counts instead."""
        patience_s = liveness.patience_s(facts, self._bounds)
        is_known = before is not None and before.heartbeat_s == facts.heartbeat_s
        if patience_s > self._bounds.unreachable_after_s and not is_known:
            _log.warning(
                "unreachable_after_too_short",
                node=facts.node_id,
                unreachable_after_s=self._bounds.unreachable_after_s,
                heartbeat_s=facts.heartbeat_s,
                counted_s=patience_s,
            )

    def _node(self, node_id: str) -> Node:
        node = self.cluster.nodes.get(node_id)
        node = node or self._absent.find(node_id, now=self._clock.monotonic())
        if node is None:
            raise never_registered(node_id)
        return node

    def excuse(self, *, stalled_s: float, now: float) -> None:
        """This process stood still, so nobody could be heard; silence is counted without it."""
        nodes = fleet.excused(self.cluster.nodes, stalled_s=stalled_s, now=now)
        self.cluster = replace(self.cluster, nodes=nodes)


def _flagged(node: Node, flag: NodeFlag | None) -> Node:
    """The node with exactly this word on it, or with none."""
    plain = fleet.flagged(node, target=NodeTarget.READY, reason="")
    if flag is None:
        return plain
    return fleet.flagged(plain, target=flag.target, reason=flag.reason, actor=flag.actor)


def _level(report: ShardReport, state: ReplicaState | None) -> Callable[..., None]:
    if report.error.startswith(PORT_IN_USE):
        return _log.debug  # the pass that follows says that the port is avoided
    return _log.warning if state is ReplicaState.FAILED else _log.info


def _held(cluster: Cluster, node_id: str) -> list[str]:
    shards = (shard for replica in cluster.replicas.values() for shard in replica.shards)
    held = {shard.shard_id for shard in shards if shard.node_id == node_id}
    strays = {stray.shard_id for stray in cluster.strays.values() if stray.node_id == node_id}
    return sorted(held | strays)


def _note(node_id: str, adoption: adopting.Adoption) -> None:
    for shard_id, why in adoption.unclaimed.items():
        _log.warning("shard_unclaimed", node=node_id, shard=shard_id, reason=why)
    if adoption.adopted or adoption.ended:
        _log.info(
            "node_adopted",
            node=node_id,
            adopted=" ".join(adoption.adopted) or None,
            ended=" ".join(adoption.ended) or None,
        )
