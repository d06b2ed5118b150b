"""Why a model is placed where it is, or why nowhere; pure.

It asks what the pass asks, of the same snapshot, and shows every answer instead of the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.control.placement import planning
from llmgw.control.placement.planning import Placement, Tried
from llmgw.control.reconciler import gates, wanting
from llmgw.domain.catalog import unknown_model
from llmgw.domain.placement_views import (
    ChosenPlacement,
    ChosenShard,
    GateView,
    NodeVerdict,
    PlacementView,
    ProfileVerdict,
)
from llmgw.domain.replicas import ReplicaState
from llmgw.domain.snapshots import Snapshot


def explain(name: str, snapshot: Snapshot) -> PlacementView:
    """Gates, profiles and nodes of a model, by name or alias; ``Unknown`` when there is none."""
    model = snapshot.catalog.resolve(name)
    if model is None:
        raise unknown_model(name)
    states = [r.state for r in snapshot.cluster.replicas.values() if r.model == model.name]
    ready, starting = states.count(ReplicaState.READY), states.count(ReplicaState.STARTING)
    counting = wanting.counting(snapshot.cluster.replicas.values())
    running = len(counting.get(model.name, ()))
    space = planning.space(
        snapshot.cluster, now=snapshot.now, bounds=snapshot.bounds, asker=model.name
    )
    failures = snapshot.cluster.failures.get(model.name)
    outcome = planning.plan(space, model, failures=failures, is_full=True)
    node_ids = [site.node_id for site in space.sites]
    return PlacementView(
        model=model.name,
        want=wanting.wanted(model, running=running, asked=snapshot.asked),
        ready=ready,
        starting=starting,
        gates=tuple(
            GateView(name=gate.name, is_open=gate.is_open, detail=gate.detail)
            for gate in gates.of(model, snapshot, running=running)
        ),
        profiles=tuple(_profile(tried, node_ids) for tried in outcome.tried),
        chosen=None if outcome.placement is None else _chosen(outcome.placement),
    )


def _profile(tried: Tried, node_ids: Sequence[str]) -> ProfileVerdict:
    refusals = {refusal.node_id: refusal for refusal in tried.refusals}
    profile = tried.profile
    return ProfileVerdict(
        profile=profile.name,
        engine=profile.engine,
        is_fit=tried.placement is not None,
        nodes=tuple(
            NodeVerdict(node_id=node_id, is_fit=False, reason=refusal.reason, check=refusal.check)
            if (refusal := refusals.get(node_id)) is not None
            else NodeVerdict(node_id=node_id, is_fit=True)
            for node_id in node_ids
        ),
        gpu_class=profile.gpu_class,
        priority=profile.priority,
        summary=tried.summary,
    )


def _chosen(placement: Placement) -> ChosenPlacement:
    return ChosenPlacement(
        profile=placement.profile.name,
        shards=tuple(
            ChosenShard(
                node_id=slot.node_id,
                rank=slot.rank,
                gpu_indices=slot.gpu_indices,
                http_port=slot.http_port,
            )
            for slot in placement.slots
        ),
        pool=placement.pool,
        fabric=placement.fabric,
    )
