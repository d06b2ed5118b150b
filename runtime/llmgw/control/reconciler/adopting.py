"""What a node's registration says of what runs there, taken in: the fleet is the truth; pure.

Called on every registration, also with nothing running. What we hold and the node does not list has
ended; what it lists becomes part of the cluster or is unclaimed, which means that it must end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from llmgw.control.reconciler import effects, reporting
from llmgw.domain import replicas as rules
from llmgw.domain.catalog import Catalog, Profile
from llmgw.domain.replicas import Replica, ReplicaState, RunningShard, Shard, ShardState, Stray
from llmgw.domain.snapshots import Cluster


@dataclass(frozen=True, slots=True)
class Adoption:
    """The cluster after it; for each unclaimed shard why, and what was taken in or written off."""

    cluster: Cluster
    unclaimed: Mapping[str, str]
    adopted: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measure:
    """What a registration is measured by.

    ``served`` are replicas that were published before we started. What nobody claims has
    ``release_after_s`` to end before its cards are given to others.
    """

    catalog: Catalog
    served: Collection[str]
    release_after_s: float


def adopt(
    cluster: Cluster,
    *,
    node_id: str,
    reported: Sequence[RunningShard],
    measure: Measure,
    now: float,
) -> Adoption:
    """Take in what a node lists."""
    taking = _Taking(cluster, node_id=node_id, measure=measure, now=now)
    live = [shard for shard in reported if not shard.state.is_final]
    taking.let_go({shard.shard_id for shard in live})
    by_replica: dict[str, list[RunningShard]] = {}
    for shard in live:
        by_replica.setdefault(shard.replica_id, []).append(shard)
    # Ready ones first: where two claim the same card, the one that serves keeps it.
    for replica_id in sorted(by_replica, key=lambda r: (not _is_ready(by_replica[r]), r)):
        taking.take(replica_id, by_replica[replica_id])
    return taking.outcome()


class _Taking:
    """One registration being taken in."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        node_id: str,
        measure: Measure,
        now: float,
    ) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._catalog = measure.catalog
        self._served = measure.served
        self._cards_until_at = now + measure.release_after_s
        self._now = now
        self._unclaimed: dict[str, str] = {}
        self._disowned: list[RunningShard] = []
        self._adopted: list[str] = []
        self._ended: list[str] = []

    def outcome(self) -> Adoption:
        strays = dict(self._cluster.strays)
        for shard in self._disowned:
            strays[self._node_id, shard.shard_id] = Stray(
                node_id=self._node_id,
                shard_id=shard.shard_id,
                http_port=shard.http_port,
                # The order to stop goes out with the answer to the registration.
                ordered_at=self._now,
                gpu_indices=shard.gpu_indices,
                cards_until_at=self._cards_until_at,
            )
        return Adoption(
            cluster=replace(self._cluster, strays=strays),
            unclaimed=self._unclaimed,
            adopted=tuple(self._adopted),
            ended=tuple(self._ended),
        )

    def let_go(self, listed: Collection[str]) -> None:
        """Write off what we hold on the node and it does not list, and strays that have ended."""
        error = f"it no longer runs: {self._node_id} registered without it"
        for replica in self._cluster.replicas.values():
            if not any(s.node_id == self._node_id for s in replica.shards):
                continue
            shards = tuple(
                effects.gone(s, error=error, now=self._now)
                if s.node_id == self._node_id and s.shard_id not in listed
                else s
                for s in replica.shards
            )
            if any(a is not b for a, b in zip(shards, replica.shards, strict=True)):
                self._put(replace(replica, shards=shards))
                self._ended.append(replica.replica_id)
        strays = {
            key: stray
            for key, stray in self._cluster.strays.items()
            if stray.node_id != self._node_id or stray.shard_id in listed
        }
        self._cluster = replace(self._cluster, strays=strays)

    def take(self, replica_id: str, group: Sequence[RunningShard]) -> None:
        """Take in what the node runs of one replica, or leave it unclaimed."""
        wanted = [shard for shard in group if not self._is_stray(shard)]
        replica = self._cluster.replicas.get(replica_id)
        if replica is None:
            self._build(replica_id, wanted)
            return
        known = {s.shard_id for s in replica.shards if s.node_id == self._node_id}
        foreign = [shard for shard in wanted if shard.shard_id not in known]
        for shard in wanted:
            if shard.shard_id in known:
                self._refresh(replica_id, shard)
        if not foreign:
            return
        if replica.adopted_at is not None and replica.failed_at is None:
            self._merge(replica_id, foreign)
        elif _has_never_run(replica) and not known:
            # An id of ours that never came up: what runs under it is the truth.
            self._cluster = effects.released(self._cluster, replica_id)
            self._build(replica_id, foreign)
        else:
            self._disown(foreign, "its replica runs without it")

    def _is_stray(self, shard: RunningShard) -> bool:
        """Whether it was told to end before: such a one is never taken back."""
        if (self._node_id, shard.shard_id) not in self._cluster.strays:
            return False
        self._disown([shard], "it was told to end before")
        return True

    def _refresh(self, replica_id: str, reported: RunningShard) -> None:
        replica = self._cluster.replicas[replica_id]
        held = next(
            s
            for s in replica.shards
            if s.shard_id == reported.shard_id and s.node_id == self._node_id
        )
        if held.state.is_final:
            self._disown([reported], "it was written off before")
            return
        state = rules.observed(held=held.state, reported=reported.state)
        shard = replace(
            held,
            state=state,
            since_at=held.since_at if state is held.state else self._now,
            http_port=reported.http_port or held.http_port,
            gpu_indices=reported.gpu_indices or held.gpu_indices,
            leader_port=reported.leader_port if held.rank == 0 else held.leader_port,
            is_reported=True,
            # Orders of the old stream may be lost: they are sent again at once.
            ordered_at=None,
        )
        shards = tuple(shard if s is held else s for s in replica.shards)
        self._put(reporting.stamped(replace(replica, shards=shards), now=self._now))

    def _merge(self, replica_id: str, parts: Sequence[RunningShard]) -> None:
        replica = self._cluster.replicas[replica_id]
        ranks = {s.rank for s in replica.shards}
        fresh = [part for part in parts if part.rank not in ranks]
        self._disown([p for p in parts if p.rank in ranks], "another node runs the same rank")
        shards = (*replica.shards, *(self._shard(part) for part in fresh))
        whole = replace(replica, shards=tuple(sorted(shards, key=lambda s: s.rank)))
        if _is_draining(fresh) and whole.drain_since_at is None:
            whole = self._leaving(whole)
        self._put(reporting.stamped(whole, now=self._now))
        self._adopted.extend(part.shard_id for part in fresh)

    def _build(self, replica_id: str, parts: Sequence[RunningShard]) -> None:
        if not parts:
            return
        model = self._catalog.models.get(parts[0].model)
        profile = None if model is None else model.profile(parts[0].profile)
        if _is_draining(parts):
            # Somebody decided that it goes, and it may still have requests to end.
            self._put(self._leaving(self._replica(replica_id, parts, profile)))
            self._adopted.extend(part.shard_id for part in parts)
        elif profile is None:
            self._disown(parts, f"{parts[0].model}/{parts[0].profile} is not in the catalog")
        elif (holder := self._holder(parts)) is not None and not self._yields(holder, parts):
            self._disown(parts, f"{holder.replica_id} holds its card or port")
        else:
            if holder is not None:
                self._give_up(holder, f"{replica_id} serves on its card or port")
            self._put(self._replica(replica_id, parts, profile))
            self._adopted.extend(part.shard_id for part in parts)

    def _leaving(self, replica: Replica) -> Replica:
        """The replica as one that serves no new request: it was being drained when it was found."""
        return replace(
            replica,
            ready_at=self._now if replica.ready_at is None else replica.ready_at,
            drain_since_at=self._now,
            drain_reason="it was being drained when its node registered",
        )

    def _replica(
        self, replica_id: str, parts: Sequence[RunningShard], profile: Profile | None
    ) -> Replica:
        first = parts[0]
        want = first.nnodes or (1 if profile is None else profile.nodes)
        was_served = replica_id in self._served
        built = Replica(
            replica_id=replica_id,
            model=first.model,
            profile=first.profile,
            shards=tuple(sorted(map(self._shard, parts), key=lambda s: s.rank)),
            want_shards=want,
            profile_fp=first.profile_fp,
            engine="" if profile is None else profile.engine,
            pool=first.pool,
            fabric=first.fabric,
            memory_claim_gb=0.0 if profile is None else profile.min_memory_gb,
            meeting_ports=1 if profile is None else profile.meeting_ports,
            disk_claim_gb=0.0 if profile is None else profile.min_disk_gb,
            leader_addr=self._leader_addr(parts),
            created_at=self._now,
            # Published before: it has been ready, its agent only looks at it again.
            ready_at=self._now if was_served else None,
            adopted_at=self._now if len(parts) < want else None,
        )
        return reporting.stamped(built, now=self._now)

    def _leader_addr(self, parts: Sequence[RunningShard]) -> str:
        leader = next((part for part in parts if part.rank == 0), None)
        reported = next((part.leader_addr for part in parts if part.leader_addr), "")
        if reported or leader is None:
            return reported
        return self._cluster.nodes[self._node_id].facts.mgmt_addr

    def _shard(self, reported: RunningShard) -> Shard:
        return Shard(
            shard_id=reported.shard_id,
            node_id=self._node_id,
            rank=reported.rank,
            http_port=reported.http_port,
            state=reported.state,
            gpu_indices=reported.gpu_indices,
            hcas=reported.hcas,
            leader_port=reported.leader_port if reported.rank == 0 else 0,
            since_at=self._now,
            is_reported=True,
        )

    def _holder(self, parts: Sequence[RunningShard]) -> Replica | None:
        """Another replica that holds a card or a port of these shards on this node."""
        cards = {index for part in parts for index in part.gpu_indices}
        ports = {part.http_port for part in parts if part.http_port}
        for replica in self._cluster.replicas.values():
            for shard in replica.shards:
                if shard.node_id != self._node_id or shard.state.is_final:
                    continue
                if shard.http_port in ports or cards.intersection(shard.gpu_indices):
                    return replica
        return None

    def _yields(self, holder: Replica, parts: Sequence[RunningShard]) -> bool:
        return _is_ready(parts) and holder.state is not ReplicaState.READY

    def _give_up(self, replica: Replica, failure: str) -> None:
        self._put(replace(replica, failed_at=self._now, failure=failure))
        self._ended.append(replica.replica_id)

    def _disown(self, shards: Sequence[RunningShard], why: str) -> None:
        for shard in shards:
            self._unclaimed[shard.shard_id] = why
            self._disowned.append(shard)

    def _put(self, replica: Replica) -> None:
        replicas = {**self._cluster.replicas, replica.replica_id: replica}
        self._cluster = replace(self._cluster, replicas=replicas)


def _is_draining(group: Sequence[RunningShard]) -> bool:
    return any(shard.state is ShardState.DRAINING for shard in group)


def _is_ready(group: Sequence[RunningShard]) -> bool:
    return all(shard.state is ShardState.READY for shard in group)


def _has_never_run(replica: Replica) -> bool:
    return not any(shard.state.is_live for shard in replica.shards)
