"""What must hold after every pass of a trial, looked at without the code that decides.

No card and no port is held twice, every engine on it has ended before a card is given again, and a
model that is wanted waits only where there is no room for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from llmgw.control.reconciler import gates, wanting
from llmgw.domain.actions import Decision, Place
from llmgw.domain.catalog import Model, Profile
from llmgw.domain.nodes import Liveness, Node
from llmgw.domain.snapshots import Cluster, Snapshot

_MIB_PER_GB = 1024
_ROOM_EVERY_S = 600.0
_MOST_KEPT = 20


class Checks:
    """Looks after each pass and keeps what was wrong."""

    def __init__(self) -> None:
        self.broken = 0
        self.sentences: list[str] = []
        self.looks = 0
        self._room_at = 0.0

    def look(self, before: Snapshot, decision: Decision, after: Cluster) -> None:
        """Look at what a pass began with, decided, and left."""
        self.looks += 1
        for fault in decision.faults:
            self._note(f"a mistake of ours: {fault!r}", now=before.now)
        if any(isinstance(action, Place) for action in decision.actions):
            for sentence in doubles(after):
                self._note(sentence, now=before.now)
        elif decision.refusals or before.missing_since:
            self._look_for_room(before, decision, after)

    def note_doubly_held(self, times: int) -> None:
        """Nodes were told to start on a card whose last engine had not ended."""
        if times:
            self.broken += times
            self.sentences.append(f"{times} starts on a card that another engine still holds")

    def _look_for_room(self, before: Snapshot, decision: Decision, after: Cluster) -> None:
        """Now and then: it costs a look at every node for each model that waits."""
        if before.now - self._room_at < _ROOM_EVERY_S or after.reservations:
            return
        self._room_at = before.now
        for model in _waiting(before, after):
            if has_room(after, model):
                why = decision.refusals.get(model.name, "nothing was said of it")
                self._note(f"there is room for {model.name}, and yet: {why}", now=before.now)

    def _note(self, sentence: str, *, now: float) -> None:
        self.broken += 1
        if len(self.sentences) < _MOST_KEPT:
            self.sentences.append(f"at {now:.0f} s: {sentence}")


def doubles(cluster: Cluster) -> Iterator[str]:
    """Every card and port that two hold."""
    holders: dict[tuple[str, str, int], str] = {}
    for replica in cluster.replicas.values():
        for shard in replica.shards:
            cards = [("card", index) for index in shard.gpu_indices]
            ports = [("port", port) for port in replica.ports_of(shard)]
            for what, number in (*cards, *ports):
                held = holders.setdefault((shard.node_id, what, number), replica.replica_id)
                if held != replica.replica_id:
                    yield f"{what} {number} of {shard.node_id}: {held} and {replica.replica_id}"


def has_room(cluster: Cluster, model: Model) -> bool:
    """Whether a replica would fit on the nodes as they are, by a look at each of them."""
    free, promised_gb = _free(cluster), _promised_gb(cluster)
    for profile in model.profiles:
        fitting = [
            node
            for node_id, node in cluster.nodes.items()
            if _takes(node, profile, free=free[node_id], promised_gb=promised_gb[node_id])
        ]
        if profile.nodes == 1 and fitting:
            return True
        fabrics = [one.name for node in fitting for one in node.facts.fabrics if one.hcas]
        if profile.nodes > 1 and any(fabrics.count(f) >= profile.nodes for f in {*fabrics}):
            return True
    return False


def _waiting(before: Snapshot, after: Cluster) -> Iterator[Model]:
    """The models that lack replicas and that nothing but room could hold up.

    A wait that the pass itself began, by giving a replica up, holds up its model as well.
    """
    left, have = replace(before, cluster=after), wanting.counting(after.replicas.values())
    for model in wanting.lacking(left.catalog, have, asked=left.asked):
        running = len(have.get(model.name, ()))
        if all(gate.is_open for gate in gates.of(model, left, running=running)):
            yield model


def _free(cluster: Cluster) -> Mapping[str, list[str]]:
    """The classes of the free cards of each node."""
    taken = {
        (shard.node_id, index)
        for replica in cluster.replicas.values()
        for shard in replica.shards
        for index in shard.gpu_indices
    }
    taken |= {(s.node_id, i) for s in cluster.strays.values() for i in s.gpu_indices}
    free: dict[str, list[str]] = defaultdict(list)
    for node_id, node in cluster.nodes.items():
        for gpu in node.facts.gpus:
            if not gpu.problems and (node_id, gpu.index) not in taken:
                free[node_id].append(gpu.gpu_class)
    return free


def _promised_gb(cluster: Cluster) -> Mapping[str, float]:
    promised: dict[str, float] = defaultdict(float)
    for replica in cluster.replicas.values():
        for shard in replica.shards:
            promised[shard.node_id] += replica.memory_claim_gb
    return promised


def _takes(node: Node, profile: Profile, *, free: list[str], promised_gb: float) -> bool:
    """What can be seen at a glance; a profile that asks for disk is never said to fit."""
    facts = node.facts
    is_there = node.liveness is Liveness.READY and node.is_connected
    total_gb = (
        float("inf") if facts.memory_total_mb is None else facts.memory_total_mb / _MIB_PER_GB
    )
    return (
        is_there
        and not (node.is_cordoned or node.is_draining or profile.min_disk_gb)
        and profile.node_selector.items() <= facts.labels.items()
        and (profile.engine in facts.engine_versions or profile.engine == "sim")
        and free.count(profile.gpu_class) >= profile.cards_per_node
        and (not profile.min_memory_gb or promised_gb + profile.min_memory_gb <= total_gb)
    )
