"""What the next pass would do, and what passes would do if something were otherwise; pure.

Nothing is applied: the snapshot that is asked about is changed and looked ahead from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from llmgw.control.inventory import fleet
from llmgw.control.reconciler import deciding, gates, narrating, wanting
from llmgw.control.reconciler.foreseeing import World
from llmgw.domain import catalog_rules
from llmgw.domain.catalog import Model, Scaling
from llmgw.domain.nodes import Liveness, Node, NodeTarget, never_registered
from llmgw.domain.outlooks import ModelOutlook, OutlookView, PlanView
from llmgw.domain.questions import Supposed, WhatIf
from llmgw.domain.replicas import ReplicaState
from llmgw.domain.snapshots import Snapshot
from llmgw.errors import Conflict, Unknown

Change: TypeAlias = Callable[[Snapshot], Snapshot]
"""How the snapshot would be otherwise."""


def plan(snapshot: Snapshot) -> PlanView:
    """The actions of the next pass, and why what is missing is not placed by it."""
    decision = deciding.decide(snapshot)
    return PlanView(
        actions=tuple(narrating.action(one, snapshot.cluster) for one in decision.actions),
        waits={**_shut(snapshot), **decision.refusals},
    )


def change_of(question: WhatIf) -> Change:
    """What a question supposes."""
    if question.definition is not None:
        return added(question.definition)
    changes = {Supposed.DRAIN: drained, Supposed.LOSE: lost, Supposed.ADD: one_more}
    return changes[question.supposed](question.name)


def drained(node_id: str) -> Change:
    """If an operator drained a node; ``Unknown`` when none of that name has registered."""

    def change(snapshot: Snapshot) -> Snapshot:
        node = _node(snapshot, node_id)
        return _with_node(snapshot, fleet.flagged(node, target=NodeTarget.DRAINING, reason=""))

    return change


def lost(node_id: str) -> Change:
    """If a node fell silent for good; ``Unknown``, or ``Conflict`` when it is lost already."""

    def change(snapshot: Snapshot) -> Snapshot:
        node, bounds = _node(snapshot, node_id), snapshot.bounds
        if node.liveness is Liveness.LOST:
            raise Conflict(f"node {node_id} is lost already; 'llmgw ctl plan' shows what follows")
        beats_s = 4 * (node.facts.heartbeat_s or 0.0)
        silence_s = bounds.lost_after_s + bounds.unreachable_after_s + beats_s
        silent = replace(node, last_seen_at=snapshot.now - silence_s, is_connected=False)
        return _with_node(_unanswered(snapshot), silent)

    return change


def one_more(name: str) -> Change:
    """If one replica more were wanted of a model; ``Unknown`` when there is no such."""

    def change(snapshot: Snapshot) -> Snapshot:
        model = snapshot.catalog.resolve(name)
        if model is None:
            raise Unknown(
                f"there is no model {name!r} in the catalog; give a file to ask about a new one"
            )
        counting = wanting.counting(snapshot.cluster.replicas.values()).get(model.name, ())
        wanted = wanting.wanted(model, running=len(counting), asked=snapshot.asked)
        scaling = replace(model.scaling or Scaling(), min=wanted + 1, max=wanted + 1)
        return _with_model(snapshot, replace(model, scaling=scaling))

    return change


def added(model: Model) -> Change:
    """If a model were in the catalog, or another under its name; ``CatalogInvalid``."""
    return lambda snapshot: _with_model(snapshot, model)


def outlook(snapshot: Snapshot, change: Change) -> OutlookView:
    """What passes would do after a change until nothing is left to do, and how models stand."""
    world = World(change(snapshot))
    world.run()
    before, after = snapshot, world.snapshot
    return OutlookView(
        passes=tuple(world.passes),
        models=tuple(_models(before, after)),
        is_complete=world.is_at_rest,
    )


def _shut(snapshot: Snapshot) -> Mapping[str, str]:
    """The gates that keep models from being placed of which replicas are missing."""
    have = wanting.counting(snapshot.cluster.replicas.values())
    return {
        model.name: gate.detail
        for model in wanting.lacking(snapshot.catalog, have, asked=snapshot.asked)
        for gate in gates.of(model, snapshot, running=len(have.get(model.name, ())))[::-1]
        if not gate.is_open
    }


def _models(before: Snapshot, after: Snapshot) -> Iterator[ModelOutlook]:
    """Every model that stands otherwise after than before, or lacks something."""
    left = _shut(after)
    refused = deciding.decide(replace(after, is_leader=True)).refusals
    had, has = _serving(before), _serving(after)
    for name, model in sorted(after.catalog.models.items()):
        wanted = wanting.wanted(model, running=has.get(name, 0), asked=after.asked)
        was, now = had.get(name, 0), has.get(name, 0)
        if was != now or now < wanted:
            yield ModelOutlook(
                model=name,
                want=wanted,
                before=was,
                after=now,
                reason="" if now >= wanted else refused.get(name) or left.get(name, ""),
            )


def _serving(snapshot: Snapshot) -> Mapping[str, int]:
    counting = wanting.counting(snapshot.cluster.replicas.values())
    return {
        name: sum(replica.state is ReplicaState.READY for replica in replicas)
        for name, replicas in counting.items()
    }


def _node(snapshot: Snapshot, node_id: str) -> Node:
    node = snapshot.cluster.nodes.get(node_id)
    if node is None:
        raise never_registered(node_id)
    return node


def _with_node(snapshot: Snapshot, node: Node) -> Snapshot:
    nodes = {**snapshot.cluster.nodes, node.node_id: node}
    return replace(snapshot, cluster=replace(snapshot.cluster, nodes=nodes))


def _unanswered(snapshot: Snapshot) -> Snapshot:
    """With nothing answering any more: what is lost for good serves nobody unheard."""
    seen = {r: replace(one, answered_at=None) for r, one in snapshot.traffic.endpoints.items()}
    return replace(snapshot, traffic=replace(snapshot.traffic, endpoints=seen))


def _with_model(snapshot: Snapshot, model: Model) -> Snapshot:
    models = {**snapshot.catalog.models, model.name: model}
    return replace(snapshot, catalog=catalog_rules.build(models.values()))
