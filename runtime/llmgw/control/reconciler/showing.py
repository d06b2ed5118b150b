"""Shows the cluster to people and programs: one pure function a kind of thing.

The reconciler calls these for the admin API; nothing is decided from what they return.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from llmgw.control.inventory import claims as claiming
from llmgw.control.inventory import fleet
from llmgw.control.inventory.claims import Claims
from llmgw.control.reconciler import draining, expecting, gates, moving, rolling, wanting
from llmgw.domain.catalog import Model
from llmgw.domain.catalog_views import Origin
from llmgw.domain.nodes import Gpu, Liveness, Node
from llmgw.domain.replicas import Replica, ReplicaState, Shard
from llmgw.domain.snapshots import Failures, Snapshot
from llmgw.domain.traffic import EndpointTraffic
from llmgw.domain.views import (
    FailureView,
    GpuUse,
    GpuView,
    ModelStatus,
    ModelView,
    NodeView,
    ReplicaView,
    ShardView,
)


def nodes(snapshot: Snapshot, *, banned: Collection[str] = ()) -> tuple[NodeView, ...]:
    """Every known node, lost ones too, in the order of their ids; ``banned`` are not let in."""
    cluster = snapshot.cluster
    book = claiming.by_node(cluster, now=snapshot.now)
    replica_ids: dict[str, list[str]] = {node_id: [] for node_id in cluster.nodes}
    for replica in cluster.replicas.values():
        for node_id in {shard.node_id for shard in replica.shards} & replica_ids.keys():
            replica_ids[node_id].append(replica.replica_id)
    stray_ids: dict[str, list[str]] = {}
    for stray in cluster.strays.values():
        stray_ids.setdefault(stray.node_id, []).append(stray.shard_id)
    return tuple(
        replace(
            _node(node, book[node_id], now=snapshot.now, state=_state(node, banned)),
            is_banned=node_id in banned,
            replica_ids=tuple(sorted(replica_ids[node_id])),
            stray_shard_ids=tuple(sorted(stray_ids.get(node_id, ()))),
        )
        for node_id, node in sorted(cluster.nodes.items())
    )


def replicas(snapshot: Snapshot) -> tuple[ReplicaView, ...]:
    """Every replica that holds something on a node, in the order of their ids."""
    return tuple(
        _replica(replica, snapshot) for _, replica in sorted(snapshot.cluster.replicas.items())
    )


def models(snapshot: Snapshot, *, refusals: Mapping[str, str]) -> tuple[ModelView, ...]:
    """Every catalog entry in the order of their names; ``refusals`` are those of the last pass."""
    by_model: dict[str, list[Replica]] = {}
    for replica in snapshot.cluster.replicas.values():
        by_model.setdefault(replica.model, []).append(replica)
    return tuple(
        _model(model, by_model.get(name, ()), snapshot, refusal=refusals.get(name, ""))
        for name, model in sorted(snapshot.catalog.models.items())
    )


def _state(node: Node, banned: Collection[str]) -> str:
    """One word for people; that a node is kept out comes before what it says or says no more."""
    return "banned" if node.node_id in banned else node.state


def _node(node: Node, claims: Claims, *, now: float, state: str) -> NodeView:
    """A node without what runs there."""
    facts = node.facts
    total_mb, claimed_mb = facts.memory_total_mb, round(claims.memory_mb)
    is_unprobed = not facts.engines_probed and not facts.engine_versions
    return NodeView(
        node_id=node.node_id,
        state=state,
        last_seen_s=now - node.last_seen_at,
        is_connected=node.is_connected,
        target=fleet.wanted_of(node),
        flag_reason=node.flag_reason,
        flag_actor=node.flag_actor,
        hostname=facts.hostname,
        mgmt_addr=facts.mgmt_addr,
        agent_version=facts.agent_version,
        labels=facts.labels,
        host=facts.host,
        gpus=tuple(_gpu(gpu, claims, node) for gpu in facts.gpus),
        fabrics=facts.fabrics,
        fabric_problems=facts.fabric_problems,
        warnings=facts.warnings,
        memory_total_mb=total_mb,
        memory_claimed_mb=claimed_mb,
        memory_available_mb=None if total_mb is None else total_mb - claimed_mb,
        storage=facts.storage,
        weights=facts.weights,
        engine_versions=None if is_unprobed else facts.engine_versions,
        engine_installs=facts.engine_installs,
        fetches=facts.fetches,
    )


def _gpu(gpu: Gpu, claims: Claims, node: Node) -> GpuView:
    problems = claiming.problems(gpu, claims)
    holder = claims.gpus.get(gpu.index)
    if not problems and holder is None and node.liveness is not Liveness.READY:
        problems = (f"its node is {node.liveness}",)
    use = GpuUse.FREE if holder is None else GpuUse.USED
    return GpuView(
        index=gpu.index,
        gpu_class=gpu.gpu_class,
        use=GpuUse.UNHEALTHY if problems else use,
        name=gpu.name,
        uuid=gpu.uuid,
        replica_id=holder,
        memory_total_mib=gpu.memory_total_mib,
        memory_used_mib=gpu.memory_used_mib,
        utilization_percent=gpu.utilization_percent,
        temperature_c=gpu.temperature_c,
        power_watts=gpu.power_watts,
        problems=problems,
    )


def _replica(replica: Replica, snapshot: Snapshot) -> ReplicaView:
    model = snapshot.catalog.models.get(replica.model)
    profile = None if model is None else model.profile(replica.profile)
    now, ready_at, seen = snapshot.now, replica.ready_at, _traffic(replica, snapshot)
    ready_in_at = expecting.ready_at(replica, snapshot)
    return ReplicaView(
        replica_id=replica.replica_id,
        model=replica.model,
        profile=replica.profile,
        engine=profile.engine if profile is not None else "",
        state=replica.state,
        age_s=now - replica.created_at,
        shards=tuple(_shard(shard, now=now) for shard in replica.shards),
        want_shards=replica.want_shards,
        url=replica.url,
        pool=replica.pool,
        fabric=replica.fabric,
        ready_s=None if ready_at is None else now - ready_at,
        ready_in_s=None if ready_in_at is None else ready_in_at - now,
        idle_s=_idle_s(seen, now=now),
        inflight=None if seen is None else seen.inflight,
        ejected_s=None if seen is None or seen.ejected_at is None else now - seen.ejected_at,
        is_stale_profile=model is not None and draining.is_stale(replica, model),
        is_assembling=replica.adopted_at is not None,
        drain_reason=replica.failure or replica.drain_reason or _move(replica, snapshot),
    )


def _traffic(replica: Replica, snapshot: Snapshot) -> EndpointTraffic | None:
    return snapshot.traffic.endpoints.get(replica.replica_id)


def _idle_s(seen: EndpointTraffic | None, *, now: float) -> float | None:
    """Unknown while nobody has used it since the gateways began: that is not idle."""
    if seen is None or (seen.last_used_at is None and not seen.inflight):
        return None
    return 0.0 if seen.inflight else max(now - (seen.last_used_at or now), 0.0)


def _move(replica: Replica, snapshot: Snapshot) -> str:
    if replica.moving_since_at is None:
        return ""
    waited_s = snapshot.now - replica.moving_since_at
    why, most_s = moving.why(replica, snapshot), moving.grace_s(replica, snapshot)
    bound = "" if most_s is None else f", {most_s:.0f} s at most"
    return f"{why}: serves until another one does in its stead, for {waited_s:.0f} s so far{bound}"


def _shard(shard: Shard, *, now: float) -> ShardView:
    return ShardView(
        shard_id=shard.shard_id,
        node_id=shard.node_id,
        rank=shard.rank,
        state=shard.state,
        since_s=now - shard.since_at,
        http_port=shard.http_port or None,
        gpu_indices=shard.gpu_indices,
        error=shard.error,
        exit_code=shard.exit_code,
        last_output=shard.last_output,
        fetch=shard.fetch,
    )


def _model(model: Model, held: Sequence[Replica], snapshot: Snapshot, *, refusal: str) -> ModelView:
    states = [replica.state for replica in held]
    ready, starting = states.count(ReplicaState.READY), states.count(ReplicaState.STARTING)
    want = wanting.wanted(model, running=ready + starting, asked=snapshot.asked)
    shut = [g for g in gates.of(model, snapshot, running=ready + starting) if not g.is_open]
    is_short = ready + starting < want
    failures = snapshot.cluster.failures.get(model.name)
    is_resting = failures is not None and failures.until_at > snapshot.now
    soonest_at = None if ready else expecting.soonest(held, snapshot)
    return ModelView(
        name=model.name,
        status=_status(
            model,
            (ready, starting),
            is_wanted=wanting.wanted(model, running=0, asked=snapshot.asked) > 0,
            is_resting=is_resting,
            is_refused=bool(refusal),
        ),
        want=want,
        ready=ready,
        starting=starting,
        draining=states.count(ReplicaState.DRAINING),
        source=model.source,
        aliases=model.aliases,
        fallbacks=model.fallbacks,
        profiles=tuple(profile.name for profile in model.profiles),
        scaling=model.scaling,
        origin=str(Origin.STORED if model.name in snapshot.catalog.stored else Origin.DECLARED),
        is_simulated=model.is_simulated,
        capabilities=model.capabilities,
        context_length=model.context_length,
        description=model.description,
        reason=(shut[0].detail if shut else refusal) if is_short else "",
        is_asked=model.name in snapshot.asked,
        ready_in_s=None if soonest_at is None else soonest_at - snapshot.now,
        backoff_left_s=failures.until_at - snapshot.now if failures and is_resting else None,
        stale=len(rolling.stale(model, snapshot)) if held else 0,
        roll=_roll(model, snapshot),
        last_failure=None if failures is None else _failure(failures, now=snapshot.now),
    )


def _roll(model: Model, snapshot: Snapshot) -> str:
    roll = snapshot.cluster.rolls.get(model.name)
    if roll is None:
        return ""
    if roll.halted:
        return f"halted: {roll.halted}"
    left = len(rolling.stale(model, snapshot))
    return f"{left} replica(s) of the older profile left to replace"


def _status(
    model: Model, running: tuple[int, int], *, is_wanted: bool, is_resting: bool, is_refused: bool
) -> ModelStatus:
    ready, starting = running
    if ready:
        return ModelStatus.READY
    if starting:
        return ModelStatus.LOADING
    scaling = model.scaling
    is_on_demand = bool(model.profiles) and scaling is not None and scaling.is_on_demand
    if is_resting and (is_wanted or is_on_demand):
        return ModelStatus.BACKOFF
    if is_wanted:
        return ModelStatus.UNPLACED if is_refused else ModelStatus.LOADING
    return ModelStatus.ON_DEMAND if is_on_demand else ModelStatus.OFF


def _failure(failures: Failures, *, now: float) -> FailureView:
    return FailureView(
        replica_id=failures.replica_id,
        error=failures.error,
        ago_s=now - failures.failed_at,
        node_id=failures.node_id,
        exit_code=failures.exit_code,
        last_output=failures.last_output,
    )
