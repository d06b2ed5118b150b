"""Which idle replicas make room for a model that fits nowhere, the cheapest to miss first; pure.

The place is found before anybody goes: it is tried whether the model would fit without them, and
the room is then kept for it. Replicas of one node go one after the other, and only those of models
that are loaded on demand: what was promised to run, what is used, and what has only just come to
serve are left alone, or two models with room for one would chase each other out for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from llmgw.control.inventory import claims as claiming
from llmgw.control.placement import fitting, planning
from llmgw.control.placement.fitting import Site
from llmgw.control.placement.planning import Placement, Space
from llmgw.control.reconciler import idleness
from llmgw.domain.actions import Evict
from llmgw.domain.catalog import Model
from llmgw.domain.replicas import Replica, ReplicaState
from llmgw.domain.snapshots import Cluster, Reservation, Snapshot


@dataclass(frozen=True, slots=True)
class _Option:
    """Victims on one node, what it costs to miss them, and the place that they leave."""

    cost: float
    victims: tuple[Replica, ...]
    placement: Placement


def is_under_way(cluster: Cluster) -> bool:
    """Whether somebody is leaving to make room."""
    return any(replica.evicted_for for replica in cluster.replicas.values())


def spare(snapshot: Snapshot) -> Sequence[Replica]:
    """All that may be stopped to make room for some model."""
    replicas = snapshot.cluster.replicas.values()
    return [replica for replica in replicas if may_go(replica, snapshot, asker="")]


def step(
    model: Model, snapshot: Snapshot, *, space: Space, candidates: Sequence[Replica]
) -> Evict | None:
    """The next replica to go for a model that fits nowhere; nothing when that would not help.

    ``space`` is what the model sees of the nodes, ``candidates`` are those that are ``spare``.
    """
    if is_under_way(snapshot.cluster):
        return None
    reservation = snapshot.cluster.reservations.get(model.name)
    if reservation is None:
        by_node = _by_node(model, candidates)
        option = _best(model, snapshot, space=space, by_node=by_node)
        if option is None:
            return None
        return _evict(option.victims[0], _reservation(model, option, snapshot), snapshot)
    left = remaining(reservation, snapshot.cluster)
    return _evict(left[0], reservation, snapshot) if left else None


def why_void(reservation: Reservation, snapshot: Snapshot, *, is_lacking: bool) -> str:
    """Why room is to be kept no longer; empty while it is."""
    if not is_lacking:
        return "it is wanted no longer"
    if reservation.until_at <= snapshot.now:
        return "it did not come to use it in time"
    staying = [
        replica.replica_id
        for replica in remaining(reservation, snapshot.cluster)
        if not may_go(replica, snapshot, asker=reservation.model)
    ]
    return f"{', '.join(staying)} cannot be spared any more" if staying else ""


def remaining(reservation: Reservation, cluster: Cluster) -> Sequence[Replica]:
    """The victims that have not been asked to leave yet."""
    held = [cluster.replicas.get(replica_id) for replica_id in reservation.victims]
    return [replica for replica in held if replica is not None and not replica.evicted_for]


def may_go(replica: Replica, snapshot: Snapshot, *, asker: str) -> bool:
    """Whether a replica may be stopped so that another model has room."""
    bounds, ready_at = snapshot.bounds, replica.ready_at
    is_plain = (
        replica.want_shards == 1
        and not replica.is_moving
        and replica.model != asker
        and replica.model not in snapshot.asked
        and idleness.on_demand(replica, snapshot) is not None
        and replica.state is ReplicaState.READY
    )
    if not is_plain or ready_at is None or snapshot.now - ready_at < bounds.min_residency_s:
        return False
    idle = idleness.rest(replica, snapshot)
    if idle is None:
        return False
    # That it was never used is only known of the time in which the gateways told of it.
    needed_s = bounds.evict_idle_after_s if idle.was_used else bounds.min_residency_s
    return snapshot.now - idle.since_at >= needed_s


def _evict(replica: Replica, reservation: Reservation, snapshot: Snapshot) -> Evict:
    idle = idleness.rest(replica, snapshot)
    idle_s = 0.0 if idle is None else snapshot.now - idle.since_at
    reason = f"nobody has used it for {idle_s:.0f} s, and {reservation.model} needs its place"
    return Evict(replica.replica_id, reservation=reservation, reason=reason)


def _reservation(model: Model, option: _Option, snapshot: Snapshot) -> Reservation:
    bounds, profile = snapshot.bounds, option.placement.profile
    each_s = bounds.drain_grace_s + bounds.release_after_s
    return Reservation(
        model=model.name,
        victims=tuple(replica.replica_id for replica in option.victims),
        gpus_by_node={slot.node_id: slot.gpu_indices for slot in option.placement.slots},
        until_at=snapshot.now + each_s * len(option.victims) + bounds.reserve_s,
        memory_gb=profile.min_memory_gb,
        disk_gb=profile.min_disk_gb,
    )


def _best(
    model: Model, snapshot: Snapshot, *, space: Space, by_node: Mapping[str, Sequence[Replica]]
) -> _Option | None:
    """The cheapest of what each node could offer; the fewest victims among equals."""
    trial = _Trial(model, snapshot, space)
    offers = [trial.offer(node_id, on) for node_id, on in by_node.items()]
    return min(
        (offer for offer in offers if offer is not None),
        key=lambda o: (o.cost, len(o.victims), [v.replica_id for v in o.victims]),
        default=None,
    )


def _by_node(model: Model, candidates: Sequence[Replica]) -> Mapping[str, Sequence[Replica]]:
    """What may go from each node; a model makes no room for itself."""
    by_node: dict[str, list[Replica]] = {}
    for replica in candidates:
        if replica.model != model.name:
            by_node.setdefault(replica.shards[0].node_id, []).append(replica)
    return by_node


class _Trial:
    """Tries whether a model fits without some replicas."""

    def __init__(self, model: Model, snapshot: Snapshot, space: Space) -> None:
        self._model = model
        self._snapshot = snapshot
        self._space = space
        self._failures = snapshot.cluster.failures.get(model.name)
        known = snapshot.cluster.load_times.values()
        self._usual_load_s = sum(known) / len(known) if known else 1.0

    def offer(self, node_id: str, candidates: Sequence[Replica]) -> _Option | None:
        """The cheapest few whose going lets the model fit; nothing where all would not do."""
        if self._place_without(node_id, candidates) is None:
            return None
        victims = sorted(candidates, key=lambda r: (self._cost(r), r.replica_id))
        for spared in reversed(tuple(victims)):
            others = [replica for replica in victims if replica is not spared]
            if others and self._place_without(node_id, others) is not None:
                victims = others
        placement = self._place_without(node_id, victims)
        if placement is None:
            return None
        return _Option(sum(map(self._cost, victims)), tuple(victims), placement)

    def _cost(self, replica: Replica) -> float:
        """Seconds of loading it again, by how probable that is: it falls with its idle time."""
        key = (replica.model, replica.profile)
        load_s = self._snapshot.cluster.load_times.get(key, self._usual_load_s)
        idle = idleness.rest(replica, self._snapshot)
        idle_s = 1.0 if idle is None else max(1.0, self._snapshot.now - idle.since_at)
        return load_s / idle_s

    def _place_without(self, node_id: str, gone: Sequence[Replica]) -> Placement | None:
        """Where the model would run; other nodes matter to profiles for several nodes alone."""
        freed = self._site_without(node_id, gone)
        alone = replace(self._space, sites=(freed,))
        placement = planning.plan(alone, self._model, failures=self._failures).placement
        if placement is not None or not self._may_join_others(freed):
            return placement
        sites = tuple(freed if site.node_id == node_id else site for site in self._space.sites)
        together = replace(self._space, sites=sites)
        return planning.plan(together, self._model, failures=self._failures).placement

    def _may_join_others(self, site: Site) -> bool:
        return any(
            profile.nodes > 1
            and fitting.refusal(site, planning.need(self._space, self._model, profile)) is None
            for profile in self._model.profiles
        )

    def _site_without(self, node_id: str, gone: Sequence[Replica]) -> Site:
        """One node as it would be, with the ports of those that share its address."""
        cluster, now = self._snapshot.cluster, self._snapshot.now
        address = cluster.nodes[node_id].facts.mgmt_addr
        nodes = {
            name: node
            for name, node in cluster.nodes.items()
            if name == node_id or (address and node.facts.mgmt_addr == address)
        }
        going = {replica.replica_id for replica in gone}
        replicas = {
            name: replica
            for name, replica in cluster.replicas.items()
            if name not in going and any(shard.node_id in nodes for shard in replica.shards)
        }
        left = replace(cluster, nodes=nodes, replicas=replicas)
        book = claiming.by_node(left, now=now)
        claiming.keep_room(book, cluster, besides=self._model.name, now=now)
        return fitting.site(nodes[node_id], book[node_id])
