"""Clusters in the middle of things: placed by passes, then some time, words of agents, mischief.

Some models are loaded on demand, some are used, some are rolled; gateways tell of most replicas.
"""

from __future__ import annotations

from dataclasses import replace

from llmgw.control.inventory import fleet
from llmgw.control.reconciler import reporting
from llmgw.control.reconciler.deciding import decide
from llmgw.domain import catalog_rules
from llmgw.domain.catalog import Scaling
from llmgw.domain.nodes import Liveness, NodeTarget
from llmgw.domain.replicas import PORT_IN_USE, ShardReport, ShardState
from llmgw.domain.snapshots import Roll
from llmgw.domain.traffic import EndpointTraffic, Traffic
from tests.fakes import clusters
from tests.fakes.random_clusters import Dice

NEXT = {
    ShardState.PENDING: (ShardState.STARTING, ShardState.LOADING),
    ShardState.STARTING: (ShardState.LOADING, ShardState.READY),
    ShardState.LOADING: (ShardState.READY,),
    ShardState.READY: (ShardState.READY,),
    ShardState.DRAINING: (ShardState.DRAINING,),
}
FLAGS = (NodeTarget.READY, NodeTarget.CORDONED, NodeTarget.DRAINING)


def snapshot(dice: Dice):
    """What a pass finds after a few others, in which anything may have happened."""
    return crowded(dice) if dice.often(0.4) else chaotic(dice)


def crowded(dice: Dice):
    """Healthy nodes with fewer cards than models that are asked for, idle, edited and rolled."""
    nodes = [clusters.node(f"n{i}", gpus=1 + dice.upto(1)) for i in range(1 + dice.upto(1))]
    models = [
        _perhaps_on_demand(
            dice, clusters.model(f"m{i}", clusters.gpu_profile(tp=1 + dice.upto(1))), chance=0.9
        )
        for i in range(3 + dice.upto(2))
    ]
    everybody = frozenset(model.name for model in models)
    found = clusters.snapshot(*models, on=clusters.cluster(*nodes), asked=everybody)
    for turn in range(3 + dice.upto(5)):
        now = found.now + dice.one(0.0, 5.0, 90.0, 400.0)
        actions = decide(replace(found, seed=turn)).actions
        on = clusters.heard(clusters.after(found.cluster, actions, now=found.now), now=now)
        on = _obeyed(dice, on, now=now)
        if dice.often(0.1):
            models = [_with_other_args(dice, model) for model in models]
            on = _rolled(dice, on, models, now=now, chance=0.8)
        catalog = catalog_rules.build(models)
        found = _used(dice, replace(found, now=now, cluster=on, catalog=catalog))
    return _with_late_comers(dice, replace(found, seed=dice.upto(10**6)))


def _with_late_comers(dice, found):
    """Later, when what runs may have become idle and what does not run is asked for."""
    later = found.now + dice.one(0.0, 350.0, 350.0, 650.0)
    on = clusters.heard(found.cluster, now=later)
    found = replace(found, now=later, cluster=on)
    if dice.often(0.3):
        return found
    running = {r.model for r in on.replicas.values() if r.drain_since_at is None}
    return replace(found, asked=frozenset(found.catalog.models.keys() - running))


def _obeyed(dice, on, *, now):
    for replica in list(on.replicas.values()):
        for shard in replica.shards:
            if shard.state.is_final or dice.often(0.1):
                continue
            state = ShardState.STOPPED if shard.is_stop_asked else ShardState.READY
            if dice.often(0.05):
                state = ShardState.FAILED
            report = clusters.report(shard, state=state, replica_id=replica.replica_id)
            on = clusters.told(on, report, now=now)
    return on


def chaotic(dice: Dice):
    """Nodes of all kinds, silent, flagged, full and broken, on which hardly anything is sure."""
    models = [_perhaps_on_demand(dice, model) for model in dice.models()]
    found = clusters.snapshot(*models, on=dice.cluster())
    for turn in range(dice.upto(5)):
        decision = decide(replace(found, seed=turn))
        on = clusters.after(found.cluster, decision.actions, now=found.now)
        now = found.now + dice.one(0.0, 1.0, 4.0, 12.0, 80.0, 700.0)
        on = _heard(dice, on, now=now)
        on = _told(dice, on, now=now)
        models = _edited(dice, models)
        on = _rolled(dice, on, models, now=now)
        found = replace(found, now=now, cluster=on, catalog=catalog_rules.build(models))
        found = _used(dice, found)
    return replace(found, seed=dice.upto(10**6))


def _perhaps_on_demand(dice, model, *, chance=0.5):
    if not dice.often(chance):
        return model
    return replace(model, scaling=Scaling(min=0, max=1, idle_timeout_s=dice.one(60.0, 600.0)))


def _used(dice, found):
    """What gateways tell of replicas, and who asks for what."""
    now, endpoints, watched = found.now, {}, {}
    for replica_id in found.cluster.replicas:
        if not dice.often(0.8):
            continue
        used_at = dice.one(None, now, now - 61, now - 200, now - 900)
        endpoints[replica_id] = EndpointTraffic(dice.one(0, 0, 0, 2), last_used_at=used_at)
        watched[replica_id] = now - dice.one(0.0, 30.0, 400.0, 1000.0)
    asked = {name for name in found.catalog.models if dice.often(0.4)}
    return replace(
        found,
        traffic=Traffic(endpoints, has_latest_table=True),
        watched_since=watched,
        asked=frozenset(asked),
        asked_at={**found.asked_at, **dict.fromkeys(asked, now)},
    )


def _rolled(dice, on, models, *, now, chance=0.2):
    rolls = {m.name: Roll(m.name, now, may_interrupt=dice.often(0.3)) for m in models}
    return replace(on, rolls={**on.rolls, **{n: r for n, r in rolls.items() if dice.often(chance)}})


def _heard(dice, on, *, now):
    return replace(on, nodes={k: _after(dice, node, now=now) for k, node in on.nodes.items()})


def _after(dice, node, *, now):
    """A node that has mostly spoken, and that somebody may have flagged."""
    if dice.often(0.85) and node.liveness is not Liveness.LOST:
        node = replace(node, last_seen_at=now, liveness=Liveness.READY)
    if dice.often(0.1):
        node = fleet.disconnected(node, now=now)
    elif dice.often(0.9):
        node = replace(node, is_connected=True)
    if dice.often(0.15):
        return fleet.flagged(node, target=dice.one(*FLAGS), reason="")
    return node


def _told(dice, on, *, now):
    for replica in list(on.replicas.values()):
        for shard in replica.shards:
            if shard.state.is_final or not dice.often(0.7):
                continue
            report = ShardReport(
                node_id=shard.node_id,
                replica_id=replica.replica_id,
                shard_id=shard.shard_id,
                state=dice.one(*NEXT[shard.state]),
            )
            if shard.is_stop_asked or dice.often(0.05):
                report = replace(report, state=ShardState.STOPPED)
            elif dice.often(0.1):
                error = dice.one("it crashed", f"{PORT_IN_USE}: somebody's")
                report = replace(report, state=ShardState.FAILED, error=error)
            elif shard.state is ShardState.DRAINING:
                report = replace(report, is_drained=dice.often(0.5))
            on = reporting.reported(on, report, now=now, avoid_s=600.0)
    for stray in list(on.strays.values()):
        if dice.often(0.3):
            ended = ShardReport(
                node_id=stray.node_id,
                replica_id="",
                shard_id=stray.shard_id,
                state=ShardState.STOPPED,
            )
            on = reporting.reported(on, ended, now=now, avoid_s=600.0)
    return on


def _edited(dice, models):
    """The catalog after somebody's change: a model more or less wanted, or gone."""
    if dice.often(0.2) and len(models) > 1:
        models = models[:-1]
    return [
        _with_other_args(dice, model)
        if dice.often(0.2)
        else replace(model, scaling=replace(model.scaling, min=wanted, max=wanted))
        if dice.often(0.3) and (wanted := dice.upto(3)) is not None
        else model
        for model in models
    ]


def _with_other_args(dice, model):
    profiles = tuple(replace(p, args=(str(dice.upto(9)),)) for p in model.profiles)
    return replace(model, profiles=profiles)
