"""How a place that was found becomes a replica, and what its nodes are told to start; pure."""

from __future__ import annotations

from llmgw.control.placement.planning import Placement, Slot
from llmgw.control.reconciler import draws
from llmgw.domain import names
from llmgw.domain.actions import Place
from llmgw.domain.catalog import Model, Profile
from llmgw.domain.replicas import LaunchProfile, Replica, Shard, ShardSpec
from llmgw.domain.snapshots import Snapshot


def place(placement: Placement, *, model: Model, replica_id: str, now: float, reason: str) -> Place:
    """The record of a new replica with all its claims, and one start a shard, rank 0 first."""
    profile = placement.profile
    replica = Replica(
        replica_id=replica_id,
        model=model.name,
        profile=profile.name,
        shards=tuple(_shard(replica_id, slot, now=now) for slot in placement.slots),
        want_shards=profile.nodes,
        profile_fp=profile.fingerprint(model=model),
        engine=profile.engine,
        pool=placement.pool,
        fabric=placement.fabric,
        memory_claim_gb=profile.min_memory_gb,
        disk_claim_gb=profile.min_disk_gb,
        leader_addr=placement.leader_addr,
        meeting_ports=profile.meeting_ports,
        created_at=now,
    )
    specs = tuple(spec_of(replica, shard, model=model, profile=profile) for shard in replica.shards)
    return Place(replica=replica, specs=specs, reason=reason)


def fresh_id(snapshot: Snapshot, model: Model) -> str:
    """An id that no replica has and no engine of an earlier one could still answer to."""
    taken = {
        *snapshot.cluster.replicas,
        *(names.replica_of(shard_id) for _, shard_id in snapshot.cluster.strays),
    }
    attempt = 0
    while True:
        token = draws.token(snapshot.seed, "replica", model.name, str(attempt))
        replica_id = names.replica_id(model=model.name, token=token)
        if replica_id not in taken:
            return replica_id
        attempt += 1


def spec_of(replica: Replica, shard: Shard, *, model: Model, profile: Profile) -> ShardSpec:
    """The start of one shard of a replica, from the catalog as it is now."""
    leader = replica.leader
    return ShardSpec(
        replica_id=replica.replica_id,
        shard_id=shard.shard_id,
        profile=_launch(model, profile),
        http_port=shard.http_port,
        rank=shard.rank,
        nnodes=replica.want_shards,
        leader_addr=replica.leader_addr,
        leader_port=leader.leader_port if leader is not None else 0,
        gpu_indices=shard.gpu_indices,
        hcas=shard.hcas,
        startup_timeout_s=profile.startup_timeout_s,
        pool=replica.pool,
        fabric=replica.fabric,
        profile_fp=profile.fingerprint(model=model),
    )


def _shard(replica_id: str, slot: Slot, *, now: float) -> Shard:
    return Shard(
        shard_id=names.shard_id(replica=replica_id, rank=slot.rank),
        node_id=slot.node_id,
        rank=slot.rank,
        http_port=slot.http_port,
        gpu_indices=slot.gpu_indices,
        hcas=slot.hcas,
        leader_port=slot.leader_port,
        since_at=now,
        ordered_at=now,
        start_orders=1,
    )


def _launch(model: Model, profile: Profile) -> LaunchProfile:
    return LaunchProfile(
        name=profile.name,
        engine=profile.engine,
        model_path=model.source,
        served_model_name=model.name,
        gpu_class=profile.gpu_class,
        tp=profile.tp,
        pp=profile.pp,
        nodes=profile.nodes,
        gpus_per_node=profile.cards_per_node,
        args=profile.args,
        env=profile.env,
        capabilities=model.capabilities,
        context_length=model.context_length,
    )
