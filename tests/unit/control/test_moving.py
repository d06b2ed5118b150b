"""A draining node: what serves there moves off without a gap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.inventory import fleet
from llmgw.control.reconciler import deciding, explaining, routing
from llmgw.domain.actions import Drain, Move, Place, Stay, StopShards
from llmgw.domain.nodes import NodeTarget
from llmgw.domain.replicas import ReplicaState, ShardState
from llmgw.domain.routes import EndpointState
from llmgw.domain.snapshots import Bounds
from tests.fakes.clusters import (
    NOW,
    after,
    cluster,
    model,
    node,
    profile,
    reach,
    replica,
    report,
    shard,
    snapshot,
    told,
)

DRAINS = {"is_draining": True}


def serving(replica_id, *, on, of="m", **others):
    return replica(replica_id, shard(replica_id, node_id=on), of=of, **others)


def one_pass(on, *models, now=NOW):
    """The cluster after a pass with all nodes alive, and what the pass did."""
    on = replace(on, nodes={n: replace(held, last_seen_at=now) for n, held in on.nodes.items()})
    actions = deciding.decide(snapshot(*models, on=on, now=now)).actions
    return after(on, actions, now=now), actions


def kinds(actions):
    return [type(action) for action in actions]


def test_what_serves_on_a_draining_node_serves_until_another_one_does():
    on = cluster(node("n1", flags=DRAINS), node("n2"), replicas=[serving("m-1", on="n1")])
    on, actions = one_pass(on, model())
    assert kinds(actions) == [Move, Place]
    assert on.replicas["m-1"].state is ReplicaState.READY
    (new,) = (r for r in on.replicas.values() if r.replica_id != "m-1")
    assert [s.node_id for s in new.shards] == ["n2"]
    assert one_pass(on, model())[1] == ()
    on, actions = one_pass(reach(on, ShardState.READY), model())
    assert kinds(actions) == [Drain]
    assert actions[0].replica_id == "m-1"


def test_why_a_replacement_has_no_place_is_explained_while_the_old_one_serves():
    on = cluster(node("n1", flags=DRAINS), replicas=[serving("m-1", on="n1")])
    on, actions = one_pass(on, model())
    assert kinds(actions) == [Move]
    view = explaining.explain("m", snapshot(model(), on=on))
    (missing,) = (gate for gate in view.gates if gate.name == "missing")
    assert (missing.is_open, missing.detail) == (True, "0 of 1 run or start")
    assert (view.want, view.ready) == (1, 1)
    assert view.profiles[0].nodes[0].reason == "it is draining"


def test_replicas_of_different_models_move_off_a_node_at_the_same_time():
    on = cluster(
        node("n1", flags=DRAINS),
        node("n2"),
        replicas=[serving("a-1", on="n1", of="a"), serving("b-1", on="n1", of="b")],
    )
    on, actions = one_pass(on, model("a"), model("b"))
    assert [a.replica_id for a in actions if isinstance(a, Move)] == ["a-1", "b-1"]
    assert kinds(one_pass(on, model("a"), model("b"))[1]) == [Place]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_of_one_model_no_more_move_at_a_time_than_may_be_unavailable(most):
    held = [serving(f"m-{i}", on="n1") for i in range(3)]
    on = cluster(node("n1", flags=DRAINS), node("n2"), replicas=held)
    bounds = Bounds(max_unavailable=most)
    actions = deciding.decide(snapshot(model(min=3), on=on, bounds=bounds)).actions
    assert kinds(actions).count(Move) == most


def test_each_old_replica_goes_as_soon_as_a_new_one_serves_and_no_sooner():
    held = [serving(f"m-{i}", on="n1") for i in range(2)]
    on = cluster(node("n1", flags=DRAINS), node("n2"), replicas=held)
    wish, bounds = model(min=2), Bounds(max_unavailable=2)
    served, drains = [], []
    for _ in range(8):
        actions = deciding.decide(snapshot(wish, on=on, bounds=bounds)).actions
        drains += [a.replica_id for a in actions if isinstance(a, Drain)]
        on = after(on, actions)
        served.append(sum(r.state is ReplicaState.READY for r in on.replicas.values()))
        new = [r for r in on.replicas.values() if r.state is ReplicaState.STARTING]
        for one in new[:1]:
            on = told(on, report(one.shards[0], state=ShardState.READY))
    assert drains == ["m-0", "m-1"]
    assert min(served) == 2


def test_replicas_of_two_nodes_move_at_the_same_time():
    on = cluster(
        node("n1", flags=DRAINS),
        node("n2", flags=DRAINS),
        node("n3"),
        replicas=[serving("a-1", on="n1", of="a"), serving("b-1", on="n2", of="b")],
    )
    _, actions = one_pass(on, model("a"), model("b"))
    assert [a.replica_id for a in actions if isinstance(a, Move)] == ["a-1", "b-1"]


def test_what_has_never_served_is_simply_stopped_and_placed_elsewhere():
    starting = replica("m-1", shard("m-1", node_id="n1", state=ShardState.LOADING))
    on = cluster(node("n1", flags=DRAINS), node("n2"), replicas=[starting])
    _, actions = one_pass(on, model())
    assert kinds(actions) == [Move, Drain, StopShards, Place]


def test_a_replica_that_is_not_needed_goes_at_once():
    """Of an on-demand model, or with enough others that serve."""
    on = cluster(node("n1", flags=DRAINS), node("n2"), replicas=[serving("m-1", on="n1")])
    _, actions = one_pass(on, model(min=0, max=1))
    assert kinds(actions) == [Move, Drain]


def test_the_only_node_that_can_run_a_model_is_drained_after_a_grace_period():
    on = cluster(node("n1", flags=DRAINS), replicas=[serving("m-1", on="n1")])
    quick = model("m", profile(startup_timeout_s=10.0))
    on, _ = one_pass(on, quick)
    assert one_pass(on, quick, now=NOW + 599)[1] == ()
    _, actions = one_pass(on, quick, now=NOW + 601)
    assert kinds(actions)[:1] == [Drain]
    assert "no replacement came to serve within 601 s" in actions[0].reason


def test_a_slow_model_has_the_time_that_its_start_may_take():
    on = cluster(node("n1", flags=DRAINS), replicas=[serving("m-1", on="n1")])
    slow = model("m", profile(startup_timeout_s=3600.0))
    on, _ = one_pass(on, slow)
    assert one_pass(on, slow, now=NOW + 3700)[1] == ()
    assert kinds(one_pass(on, slow, now=NOW + 3721)[1])[:1] == [Drain]


def test_a_freed_node_keeps_what_has_not_been_ended():
    on = cluster(node("n1", flags=DRAINS), replicas=[serving("m-1", on="n1")])
    on, _ = one_pass(on, model())
    freed = fleet.flagged(on.nodes["n1"], target=NodeTarget.READY, reason="")
    on, actions = one_pass(replace(on, nodes={"n1": freed}), model())
    assert kinds(actions) == [Stay]
    assert not on.replicas["m-1"].is_moving
    assert one_pass(on, model())[1] == ()


def test_a_replica_over_several_nodes_moves_whole():
    wide = replica(
        "m-1", shard("m-1", node_id="n1"), shard("m-1", node_id="n2", rank=1), profile="cpu"
    )
    on = cluster(node("n1"), node("n2", flags=DRAINS), replicas=[wide])
    _, actions = one_pass(on, model())
    assert [a.replica_id for a in actions if isinstance(a, Move)] == ["m-1"]


def test_a_cordoned_node_keeps_what_runs_and_gets_nothing_new():
    on = cluster(node("n1", flags={"is_cordoned": True}), replicas=[serving("m-1", on="n1")])
    decision = deciding.decide(snapshot(model(min=2), on=on))
    assert decision.actions == ()
    assert "cordoned" in decision.refusals["m"]


@pytest.mark.parametrize("target", list(NodeTarget))
def test_an_operators_word_outlives_a_registration(target):
    flagged = fleet.flagged(node("n1"), target=target, reason="new cards")
    again = fleet.registered(flagged, flagged.facts, now=NOW + 60)
    assert (again.state, again.flag_reason) == (flagged.state, flagged.flag_reason)
    assert again.state == str(target)


def test_the_same_word_again_keeps_its_reason_and_another_word_does_not():
    cordoned = fleet.flagged(node("n1"), target=NodeTarget.CORDONED, reason="new cards")
    assert fleet.flagged(cordoned, target=NodeTarget.CORDONED, reason="") == cordoned
    drained = fleet.flagged(cordoned, target=NodeTarget.DRAINING, reason="")
    assert (drained.state, drained.flag_reason) == ("draining", "")


def test_a_replica_whose_profile_left_the_catalog_serves_until_one_of_another_profile_does():
    old = serving("m-1", on="n1", engine="sim")
    on, wish = cluster(node("n1"), replicas=[old]), model("m", profile("other"))
    on, actions = one_pass(on, wish)
    assert kinds(actions) == [Move, Place]
    assert "profile cpu is no longer in the catalog" in actions[0].reason
    table = routing.build(snapshot(wish, on=on), carried=(), refused=(), created_at=0, term=0)
    assert [(e.endpoint_id, e.engine, e.state) for e in table.endpoints] == [
        ("m-1", "sim", EndpointState.READY)
    ]
    _, actions = one_pass(reach(on, ShardState.READY), wish)
    assert kinds(actions) == [Drain]
    assert actions[0].replica_id == "m-1"
