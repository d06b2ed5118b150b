"""Builders of small clusters: what a test does not name has a plain, healthy value."""

from __future__ import annotations

from dataclasses import replace

from llmgw.control.inventory import fleet
from llmgw.control.reconciler import effects, reporting, settling
from llmgw.domain import catalog_rules
from llmgw.domain.catalog import Model, Profile, Scaling
from llmgw.domain.nodes import Fabric, Gpu, Liveness, LocalWeights, NodeFacts
from llmgw.domain.replicas import Replica, RunningShard, Shard, ShardReport, ShardState
from llmgw.domain.snapshots import Bounds, Cluster, Settling, Snapshot

NOW = 10_000.0

H100 = "h100-80g"


def gpu(index, *, name="NVIDIA H100 80GB HBM3", mib=81559, **others):
    return Gpu(index=index, uuid=f"GPU-{index}", name=name, memory_total_mib=mib, **others)


def facts(node_id, *, gpus=0, fabrics=(), weights=(), **others):
    """Facts of a node with ``gpus`` H100 cards; ``fabrics`` maps a name to its adapters."""
    number = sum(ord(c) * (i + 1) for i, c in enumerate(node_id)) % 250
    plain = {
        "mgmt_addr": f"10.0.0.{number}",
        "engine_versions": {"llamacpp": "b1", "sim": "1", "vllm": "0.11"},
        "engines_probed": True,
    }
    return NodeFacts(
        node_id=node_id,
        gpus=tuple(gpu(i) for i in range(gpus)) if isinstance(gpus, int) else tuple(gpus),
        fabrics=tuple(
            f if isinstance(f, Fabric) else Fabric(name=f, hcas=(f"{f}_0",), rate_gbps=400)
            for f in fabrics
        ),
        weights=tuple(LocalWeights(path=path, size_bytes=1) for path in weights),
        **{**plain, **others},
    )


def node(node_id, *, now=NOW, liveness=None, flags=None, **others):
    built = fleet.registered(None, facts(node_id, **others), now=now)
    built = replace(built, **(flags or {}))
    return built if liveness is None else replace(built, liveness=liveness)


def profile(name="cpu", *, engine="sim", **others):
    return Profile(name=name, engine=engine, **others)


def gpu_profile(name="gpu", *, tp=1, **others):
    return Profile(name=name, engine="vllm", gpu_class=H100, tp=tp, **others)


def wide_profile(name="wide", *, nodes=2, gpus_per_node=4, **others):
    return Profile(
        name=name,
        engine="vllm",
        gpu_class=H100,
        tp=nodes * gpus_per_node,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        **others,
    )


def model(name="m", *profiles, min=1, max=None, source="/weights/m.gguf", **others):  # noqa: A002 - as written in a file
    scaling = Scaling(min=min, max=min if max is None else max)
    return Model(
        name=name, source=source, scaling=scaling, profiles=profiles or (profile(),), **others
    )


def cluster(*nodes, replicas=(), strays=(), **others):
    return Cluster(
        nodes={n.node_id: n for n in nodes},
        replicas={r.replica_id: r for r in replicas},
        strays={(s.node_id, s.shard_id): s for s in strays},
        **others,
    )


def snapshot(*models, on=None, now=NOW, bounds=None, settled=True, **others):
    """A snapshot of a leader that has settled, with these models and the cluster ``on``."""
    return Snapshot(
        now=now,
        catalog=catalog_rules.build(models),
        cluster=on if on is not None else Cluster(),
        settling=replace(settling.begun(now=0.0), is_over=settled),
        bounds=bounds or Bounds(),
        **others,
    )


def unsettled(*, started_at=NOW):
    return Settling(started_at=started_at, count_since_at=started_at)


def shard(replica_id="m-1", *, node_id="n1", rank=0, state=ShardState.READY, **others):
    plain = {"http_port": 20000, "is_reported": True, "since_at": NOW}
    return Shard(
        shard_id=f"{replica_id}.{rank}",
        node_id=node_id,
        rank=rank,
        state=state,
        **{**plain, **others},
    )


def replica(replica_id="m-1", *shards, of="m", profile="cpu", now=NOW, **others):
    """A replica; with ready shards it has been ready since ``now``."""
    shards = shards or (shard(replica_id),)
    plain = {
        "leader_addr": "10.0.0.1",
        "created_at": now,
        "want_shards": len(shards),
        "pool": "local/cpu",
    }
    built = Replica(
        replica_id=replica_id,
        model=of,
        profile=profile,
        shards=tuple(shards),
        **{**plain, **others},
    )
    return reporting.stamped(built, now=now)


def running(replica_id="m-1", *, rank=0, state=ShardState.READY, of="m", profile="cpu", **others):
    """A shard as an agent lists it."""
    plain = {"http_port": 20000, "leader_addr": "10.0.0.1", "pool": "local/cpu"}
    return RunningShard(
        replica_id=replica_id,
        shard_id=f"{replica_id}.{rank}",
        rank=rank,
        state=state,
        model=of,
        profile=profile,
        **{**plain, **others},
    )


def report(shard, *, state, replica_id=None, **others):
    return ShardReport(
        node_id=shard.node_id,
        replica_id=replica_id or shard.shard_id.rpartition(".")[0],
        shard_id=shard.shard_id,
        state=state,
        **others,
    )


def after(on, actions, *, now=NOW):
    """The cluster with all of these actions done."""
    for action in actions:
        on = effects.after(on, action, now=now)
    return on


def reach(on, state, *, now=NOW):
    """The cluster after every running shard has reported ``state``."""
    for held in on.replicas.values():
        for one in held.shards:
            if not one.state.is_final:
                on = told(on, report(one, state=state, replica_id=held.replica_id), now=now)
    return on


def heard(on, *, now):
    """The cluster after every node has spoken."""
    nodes = {
        k: replace(n, last_seen_at=now, liveness=Liveness.READY, is_connected=True)
        for k, n in on.nodes.items()
    }
    return replace(on, nodes=nodes)


def told(on, report, *, now=NOW):
    """The cluster after one report."""
    return reporting.reported(on, report, now=now, avoid_s=600.0)
