"""Clusters in the middle of things: placed by passes, then some time, words of agents, mischief."""

from __future__ import annotations

from dataclasses import replace

from llmgw.control.inventory import fleet
from llmgw.control.reconciler import reporting
from llmgw.control.reconciler.deciding import decide
from llmgw.domain import catalog_rules
from llmgw.domain.nodes import Liveness, NodeTarget
from llmgw.domain.replicas import PORT_IN_USE, ShardReport, ShardState
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
    models = dice.models()
    found = clusters.snapshot(*models, on=dice.cluster())
    for turn in range(dice.upto(5)):
        decision = decide(replace(found, seed=turn))
        on = clusters.after(found.cluster, decision.actions, now=found.now)
        now = found.now + dice.one(0.0, 1.0, 4.0, 12.0, 80.0, 700.0)
        on = _heard(dice, on, now=now)
        on = _told(dice, on, now=now)
        models = _edited(dice, models)
        found = replace(found, now=now, cluster=on, catalog=catalog_rules.build(models))
    return replace(found, seed=dice.upto(10**6))


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
        replace(model, scaling=replace(model.scaling, min=wanted, max=wanted))
        if dice.often(0.3) and (wanted := dice.upto(3)) is not None
        else model
        for model in models
    ]
