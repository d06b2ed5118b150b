"""What passes would do, and what would come of a change: the same decisions, nothing applied."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.control.reconciler import previewing
from llmgw.control.reconciler.deciding import decide
from llmgw.control.reconciler.foreseeing import World
from llmgw.domain.nodes import Liveness
from llmgw.errors import CatalogInvalid, Conflict, Unknown
from tests.fakes import clusters, stirred
from tests.fakes.random_clusters import Dice

MANY = settings(max_examples=1000, deadline=None, derandomize=True, database=None)
SOME = settings(MANY, max_examples=100)
SEEDS = st.integers(min_value=0, max_value=2**32)


def running(*models, on):
    """A snapshot in which all that can be placed serves."""
    snapshot = clusters.snapshot(*models, on=on)
    world = World(snapshot)
    world.run()
    assert world.is_at_rest
    return replace(world.snapshot, catalog=snapshot.catalog)


def kinds(view):
    return [action.kind for one in view.passes for action in one.actions]


def models(view):
    return [(one.model, one.want, one.before, one.after) for one in view.models]


def two_nodes(**others):
    return clusters.cluster(clusters.node("n1", **others), clusters.node("n2", **others))


@MANY
@given(SEEDS)
def test_a_plan_is_what_the_pass_decides(seed):
    snapshot = stirred.snapshot(Dice(seed))
    decision, plan = decide(snapshot), previewing.plan(snapshot)
    assert [a.reason for a in decision.actions] == [
        a.reason.rpartition(": ")[0] if a.kind == "expire_node" else a.reason for a in plan.actions
    ]
    assert decision.refusals.items() <= plan.waits.items()


@SOME
@given(SEEDS)
def test_a_look_ahead_ends_and_changes_nothing_that_is(seed):
    snapshot = stirred.snapshot(Dice(seed))
    before = replace(snapshot)
    view = previewing.outlook(snapshot, lambda same: same)
    assert snapshot == before
    assert view.is_complete
    assert view.is_enough or any(one.reason for one in view.models)


def test_a_plan_says_why_a_model_waits():
    snapshot = clusters.snapshot(clusters.model("m"), on=two_nodes(), settled=False)
    assert previewing.plan(snapshot).actions == ()
    assert "waiting for nodes" in previewing.plan(snapshot).waits["m"]


def test_a_plan_says_why_no_node_takes_a_model():
    model = clusters.model("m", clusters.gpu_profile())
    plan = previewing.plan(clusters.snapshot(model, on=two_nodes()))
    assert "no GPU" in plan.waits["m"]


def test_a_drained_node_is_emptied_without_a_gap():
    snapshot = running(clusters.model("m"), on=two_nodes())
    (replica,) = snapshot.cluster.replicas.values()
    node = replica.shards[0].node_id
    view = previewing.outlook(snapshot, previewing.drained(node))
    assert kinds(view) == ["move", "place", "drain", "stop_shards", "release"]
    moved, placed = view.passes[0].actions
    assert moved.node_ids == (node,)
    assert placed.node_ids != (node,)
    assert models(view) == []
    assert view.is_enough


def test_the_only_capable_node_goes_after_the_grace_and_leaves_the_model_short():
    snapshot = running(clusters.model("m"), on=clusters.cluster(clusters.node("n1")))
    view = previewing.outlook(snapshot, previewing.drained("n1"))
    assert view.is_complete
    assert not view.is_enough
    assert models(view) == [("m", 1, 1, 0)]
    assert "draining" in view.models[0].reason
    assert view.passes[-1].after_s > 600


def test_a_lost_node_is_replaced_where_there_is_room():
    snapshot = running(clusters.model("m", clusters.gpu_profile()), on=two_nodes(gpus=1))
    (replica,) = snapshot.cluster.replicas.values()
    view = previewing.outlook(snapshot, previewing.lost(replica.shards[0].node_id))
    assert kinds(view)[0] == "expire_node"
    assert "place" in kinds(view)
    assert view.is_enough


def test_a_lost_node_whose_model_fits_nowhere_else_leaves_it_short_and_says_why():
    model = clusters.model("m", clusters.gpu_profile(tp=2), min=2)
    snapshot = running(model, on=two_nodes(gpus=2))
    view = previewing.outlook(snapshot, previewing.lost("n1"))
    assert models(view) == [("m", 2, 2, 1)]
    assert "n2" in view.models[0].reason


def test_one_more_of_a_model_takes_a_place_or_says_what_is_missing():
    on = clusters.cluster(clusters.node("n1", gpus=2))
    snapshot = running(clusters.model("m", clusters.gpu_profile()), on=on)
    view = previewing.outlook(snapshot, previewing.one_more("m"))
    assert (kinds(view), models(view)) == (["place"], [("m", 2, 1, 2)])
    full = running(clusters.model("m", clusters.gpu_profile(), min=2), on=on)
    view = previewing.outlook(full, previewing.one_more("m"))
    assert (kinds(view), models(view)) == ([], [("m", 3, 2, 2)])
    assert "n1" in view.models[0].reason


def test_a_model_that_is_off_can_be_asked_about():
    snapshot = clusters.snapshot(clusters.model("m", min=0), on=two_nodes())
    view = previewing.outlook(snapshot, previewing.one_more("m"))
    assert models(view) == [("m", 1, 0, 1)]


def test_a_new_model_is_placed_as_if_it_were_in_the_catalog():
    snapshot = running(clusters.model("m"), on=two_nodes())
    view = previewing.outlook(snapshot, previewing.added(clusters.model("new", min=2)))
    assert models(view) == [("new", 2, 0, 2)]


def test_a_model_that_may_not_be_is_refused_with_every_mistake():
    snapshot = clusters.snapshot(clusters.model("m"), on=two_nodes())
    broken = clusters.model("no name!", clusters.profile(engine="quick"))
    with pytest.raises(CatalogInvalid) as found:
        previewing.outlook(snapshot, previewing.added(broken))
    assert len(found.value.problems) == 2


@pytest.mark.parametrize("change", [previewing.drained, previewing.lost])
def test_a_node_that_never_registered_is_unknown(change):
    snapshot = clusters.snapshot(clusters.model("m"), on=two_nodes())
    with pytest.raises(Unknown, match="ctl nodes"):
        previewing.outlook(snapshot, change("n9"))


def test_a_model_that_is_not_in_the_catalog_is_unknown():
    snapshot = clusters.snapshot(clusters.model("m"), on=two_nodes())
    with pytest.raises(Unknown, match="file"):
        previewing.outlook(snapshot, previewing.one_more("x"))


def test_a_node_that_is_lost_already_cannot_be_lost_again():
    on = clusters.cluster(clusters.node("n1", liveness=Liveness.LOST))
    with pytest.raises(Conflict, match="ctl plan"):
        previewing.outlook(clusters.snapshot(on=on), previewing.lost("n1"))
