"""What a registration brings: each row of the adoption table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.inventory import claims
from llmgw.control.reconciler import adopting, effects, wanting
from llmgw.control.reconciler.deciding import decide
from llmgw.domain import catalog_rules
from llmgw.domain.actions import MarkFailed, Place, Release, StopShards
from llmgw.domain.replicas import ReplicaState, ShardState, Stray
from llmgw.domain.snapshots import Bounds
from tests.fakes import clusters
from tests.fakes.clusters import NOW

MODEL = clusters.model("m", clusters.profile(min_memory_gb=4), clusters.wide_profile())


def adopt(on, *reported, node_id="n1", models=(MODEL,), served=(), now=NOW):
    return adopting.adopt(
        on,
        node_id=node_id,
        reported=reported,
        measure=adopting.Measure(
            catalog=catalog_rules.build(models),
            served=served,
            release_after_s=Bounds().release_after_s,
        ),
        now=now,
    )


def nodes(**others):
    return clusters.cluster(clusters.node("n1"), clusters.node("n2"), **others)


def half(rank, **others):
    return clusters.running(rank=rank, nnodes=2, profile="wide", fabric="ib", **others)


# Let go


def test_shard_that_is_not_listed_has_ended_and_its_replica_is_rebuilt_at_once():
    on = nodes(replicas=[clusters.replica()])
    after = adopt(on)
    assert after.ended == ("m-1",)
    assert after.cluster.replicas["m-1"].state is ReplicaState.FAILED
    decision = decide(clusters.snapshot(MODEL, on=after.cluster))
    assert [type(a) for a in decision.actions] == [MarkFailed, Release, Place]
    assert decision.actions[0].failures is None


@pytest.mark.parametrize("state", [ShardState.STOPPED, ShardState.FAILED])
def test_shard_that_is_listed_as_ended_counts_as_not_listed(state):
    on = nodes(replicas=[clusters.replica()])
    after = adopt(on, clusters.running(state=state))
    assert after.cluster.replicas["m-1"].state is ReplicaState.FAILED
    assert after.unclaimed == {}


def test_shard_whose_stop_was_asked_ends_as_wanted():
    asked = clusters.shard(stop_asked_at=NOW, ordered_at=NOW)
    leaving = replace(clusters.replica("m-1", asked), drain_since_at=NOW)
    after = adopt(nodes(replicas=[leaving]))
    assert after.cluster.replicas["m-1"].state is ReplicaState.STOPPED


def test_shards_of_other_nodes_are_not_touched():
    on = nodes(replicas=[clusters.replica("m-1", clusters.shard(node_id="n2"))])
    after = adopt(on)
    assert after.cluster == on


def test_stray_that_is_not_listed_frees_its_port_and_one_that_is_keeps_it():
    strays = [Stray(node_id="n1", shard_id=f"x-{i}.0", http_port=20000 + i) for i in (1, 2)]
    after = adopt(nodes(strays=strays), clusters.running("x-1", http_port=20001, gpu_indices=(1,)))
    (stray,) = after.cluster.strays.values()
    assert (stray.shard_id, stray.http_port, stray.gpu_indices) == ("x-1.0", 20001, (1,))
    assert stray.cards_until_at == NOW + Bounds().release_after_s
    assert set(after.unclaimed) == {"x-1.0"}


def test_download_that_is_listed_as_pending_goes_on():
    pending = clusters.shard(state=ShardState.PENDING)
    on = nodes(replicas=[clusters.replica("m-1", pending)])
    after = adopt(on, clusters.running(state=ShardState.PENDING))
    assert after.cluster.replicas["m-1"].state is ReplicaState.STARTING
    assert after.ended == ()
    assert after.unclaimed == {}


# Take in


@pytest.mark.parametrize(
    ("models", "reported"),
    [
        ([clusters.model("other")], clusters.running()),
        ([clusters.model("m", clusters.profile("new"))], clusters.running()),
    ],
    ids=["model", "profile"],
)
def test_engine_of_what_left_the_catalog_is_unclaimed_and_keeps_its_port(models, reported):
    after = adopt(nodes(), reported, models=models)
    assert set(after.unclaimed) == {"m-1.0"}
    assert after.cluster.replicas == {}
    stray = after.cluster.strays["n1", "m-1.0"]
    assert (stray.http_port, stray.ordered_at) == (20000, NOW)


def test_known_replica_of_a_removed_model_is_left_to_its_drain():
    leaving = replace(clusters.replica(), drain_since_at=NOW, drain_reason="removed")
    after = adopt(nodes(replicas=[leaving]), clusters.running(), models=[clusters.model("other")])
    assert after.unclaimed == {}
    assert after.cluster.replicas["m-1"].state is ReplicaState.DRAINING


def test_known_shard_is_refreshed_and_nothing_is_stopped():
    on = nodes(replicas=[clusters.replica()])
    after = adopt(on, clusters.running())
    assert after.unclaimed == {}
    assert after.cluster.replicas["m-1"].state is ReplicaState.READY
    assert after.cluster.replicas["m-1"].ready_at == NOW


def test_ready_replica_that_its_agent_looks_at_again_has_been_ready_all_along():
    on = nodes(replicas=[clusters.replica(now=NOW - 50)])
    after = adopt(on, clusters.running(state=ShardState.STARTING))
    looked_at = after.cluster.replicas["m-1"]
    assert looked_at.state is ReplicaState.STARTING
    assert (looked_at.ready_at, looked_at.unready_at) == (NOW - 50, NOW)
    again = adopt(after.cluster, clusters.running(), now=NOW + 5).cluster.replicas["m-1"]
    assert (again.state, again.ready_at, again.unready_at) == (ReplicaState.READY, NOW - 50, None)


def test_orders_of_an_old_stream_are_sent_again_at_once():
    asked = clusters.shard(stop_asked_at=NOW - 3, ordered_at=NOW - 3)
    failed = replace(clusters.replica("m-1", asked), failed_at=NOW - 3, failure="x")
    after = adopt(nodes(replicas=[failed]), clusters.running())
    decision = decide(clusters.snapshot(MODEL, on=after.cluster, settled=False))
    assert [a.shard_ids for a in decision.actions] == [("m-1.0",)]


def test_copy_of_ours_that_was_only_placed_loses_to_what_runs():
    placed = clusters.replica(
        "m-1", clusters.shard(state=ShardState.PENDING, http_port=20005, is_reported=False)
    )
    after = adopt(nodes(replicas=[placed]), clusters.running(http_port=20000))
    adopted = after.cluster.replicas["m-1"]
    assert adopted.state is ReplicaState.READY
    assert adopted.url == "http://10.0.0.1:20000"


def test_copy_of_ours_on_another_node_that_was_only_placed_is_stopped_there():
    elsewhere = clusters.shard(node_id="n2", state=ShardState.PENDING, is_reported=False)
    on = nodes(replicas=[clusters.replica("m-1", elsewhere)])
    after = adopt(on, clusters.running())
    assert [s.node_id for s in after.cluster.replicas["m-1"].shards] == ["n1"]
    assert set(after.cluster.strays) == {("n2", "m-1.0")}
    assert after.unclaimed == {}


def test_where_our_copy_lives_only_unrecognised_shards_are_disowned():
    on = nodes(replicas=[clusters.replica("m-1", clusters.shard(node_id="n2"))])
    after = adopt(on, clusters.running())
    assert set(after.unclaimed) == {"m-1.0"}
    assert after.cluster.replicas["m-1"] == on.replicas["m-1"]


def test_shard_that_was_written_off_and_still_runs_is_disowned():
    gone = effects.gone(clusters.shard(), error="node n1 is lost", now=NOW)
    failed = replace(clusters.replica("m-1", gone), failed_at=NOW, failure="x")
    after = adopt(nodes(replicas=[failed]), clusters.running())
    assert set(after.unclaimed) == {"m-1.0"}


def test_unknown_replica_is_built_from_what_its_agent_tells():
    reported = clusters.running(
        gpu_indices=(2, 3), http_port=20007, profile_fp="v1:of-the-agent", pool="ib/h100-80g"
    )
    after = adopt(nodes(), reported)
    built = after.cluster.replicas["m-1"]
    assert built.state is ReplicaState.READY
    assert built.url == "http://10.0.0.1:20007"
    assert built.shards[0].gpu_indices == (2, 3)
    assert (built.profile_fp, built.pool) == ("v1:of-the-agent", "ib/h100-80g")
    assert built.memory_claim_gb == 4
    assert (built.created_at, built.adopted_at) == (NOW, None)
    assert after.adopted == ("m-1.0",)


def test_adopted_replicas_need_no_start_and_their_claims_are_back():
    on = adopt(nodes(), clusters.running()).cluster
    decision = decide(clusters.snapshot(MODEL, on=on))
    assert decision.actions == ()
    second = decide(
        clusters.snapshot(replace(MODEL, scaling=clusters.Scaling(min=2, max=2)), on=on)
    )
    (place,) = second.actions
    assert place.replica.shards[0].node_id == "n2"


def test_replica_that_was_served_before_the_restart_was_ready_before_it():
    checking = clusters.running(state=ShardState.STARTING)
    assert adopt(nodes(), checking).cluster.replicas["m-1"].ready_at is None
    served = adopt(nodes(), checking, served=["m-1"]).cluster.replicas["m-1"]
    assert served.state is ReplicaState.STARTING
    assert (served.ready_at, served.unready_at) == (NOW, NOW)


@pytest.mark.parametrize("first", [0, 1])
def test_halves_in_two_registrations_make_a_whole_in_either_order(first):
    on, second = nodes(), 1 - first
    one = adopt(on, half(first), node_id=f"n{first + 1}").cluster
    part = one.replicas["m-1"]
    assert part.state is ReplicaState.STARTING
    assert part.adopted_at == NOW
    assert (part.url is not None) is (first == 0)
    both = adopt(one, half(second), node_id=f"n{second + 1}", now=NOW + 1).cluster
    whole = both.replicas["m-1"]
    assert whole.state is ReplicaState.READY
    assert [s.rank for s in whole.shards] == [0, 1]
    assert (whole.adopted_at, whole.ready_at) == (None, NOW + 1)
    assert whole.url == "http://10.0.0.1:20000"


def test_number_of_shards_comes_from_the_agent_and_else_from_the_profile():
    told = adopt(nodes(), clusters.running(nnodes=3, profile="wide")).cluster
    untold = adopt(nodes(), clusters.running(nnodes=0, profile="wide")).cluster
    assert told.replicas["m-1"].want_shards == 3
    assert untold.replicas["m-1"].want_shards == 2


def test_shard_lost_after_the_replica_was_whole_is_an_ordinary_failure():
    one = adopt(nodes(), half(0)).cluster
    both = adopt(one, half(1), node_id="n2").cluster
    after = adopt(both, node_id="n2").cluster
    assert after.replicas["m-1"].state is ReplicaState.FAILED


def test_same_rank_from_two_nodes_is_taken_once():
    one = adopt(nodes(), half(0)).cluster
    twice = adopt(one, half(0), node_id="n2")
    assert set(twice.unclaimed) == {"m-1.0"}
    assert [s.node_id for s in twice.cluster.replicas["m-1"].shards] == ["n1"]


def test_engine_that_was_told_to_end_is_never_taken_back():
    stray = Stray(node_id="n1", shard_id="m-1.0", http_port=20000)
    after = adopt(nodes(strays=[stray]), clusters.running())
    assert set(after.unclaimed) == {"m-1.0"}
    assert after.cluster.replicas == {}


@pytest.mark.parametrize("models", [(MODEL,), ()], ids=["still-wanted", "gone"])
def test_engine_that_was_being_drained_ends_what_it_does_and_serves_nobody_new(models):
    """A control plane that restarts in the middle of a drain cuts no request."""
    after = adopt(nodes(), clusters.running(state=ShardState.DRAINING), models=models)
    assert after.unclaimed == {}
    leaving = after.cluster.replicas["m-1"]
    assert leaving.state is ReplicaState.DRAINING
    assert wanting.counting([leaving]) == {}
    at_work = {"m-1": 3}
    early = clusters.snapshot(*models, on=after.cluster, draining_inflight=at_work)
    assert StopShards not in [type(a) for a in decide(early).actions]
    done = clusters.snapshot(*models, on=after.cluster, draining_inflight={"m-1": 0})
    assert decide(done).actions[0] == StopShards(
        "m-1", ("m-1.0",), reason="it was being drained when its node registered"
    )
    late = clusters.snapshot(*models, on=clusters.heard(after.cluster, now=NOW + 61), now=NOW + 61)
    assert StopShards in [type(a) for a in decide(late).actions]


@pytest.mark.parametrize("first", [0, 1])
def test_half_that_was_being_drained_takes_its_sibling_along(first):
    """The order to drain may have reached only one of the nodes."""
    states = {0: ShardState.READY, 1: ShardState.DRAINING}
    one = adopt(nodes(), half(first, state=states[first]), node_id=f"n{first + 1}").cluster
    second = 1 - first
    both = adopt(one, half(second, state=states[second]), node_id=f"n{second + 1}")
    assert both.unclaimed == {}
    leaving = both.cluster.replicas["m-1"]
    assert (leaving.state, len(leaving.shards)) == (ReplicaState.DRAINING, 2)
    late = clusters.heard(both.cluster, now=NOW + 61)
    (stop, *_) = decide(clusters.snapshot(MODEL, on=late, now=NOW + 61)).actions
    assert stop.shard_ids == ("m-1.0", "m-1.1")


def test_claims_of_what_is_adopted_by_a_fresh_control_plane_are_held_again():
    serving = clusters.running(gpu_indices=(0,), http_port=20003)
    book = claims.by_node(adopt(nodes(), serving).cluster, now=NOW)
    assert (book["n1"].memory_mb, book["n1"].gpus) == (4096, {0: "m-1"})
    assert book["n1"].taken_ports == {20003}


def test_an_adopted_download_is_promised_its_space_again():
    downloading = clusters.running(state=ShardState.PENDING)
    model = clusters.model("m", clusters.profile(min_disk_gb=20))
    on = adopt(nodes(), downloading, models=(model,)).cluster
    assert claims.by_node(on, now=NOW)["n1"].disk_gb == 20
    ready = adopt(nodes(), clusters.running(), models=(model,)).cluster
    assert claims.by_node(ready, now=NOW)["n1"].disk_gb == 0


@pytest.mark.parametrize(
    ("held_state", "new_state", "winner"),
    [
        (ShardState.READY, ShardState.READY, "a-1"),
        (ShardState.LOADING, ShardState.READY, "m-1"),
        (ShardState.LOADING, ShardState.LOADING, "a-1"),
    ],
    ids=["both-ready", "only-the-new-one", "neither"],
)
@pytest.mark.parametrize(
    "shared", [{"gpu_indices": (1,)}, {"http_port": 20009}], ids=["card", "port"]
)
def test_of_two_on_one_card_or_port_the_ready_one_wins(held_state, new_state, winner, shared):
    held = clusters.shard("a-1", gpu_indices=(0, 1), http_port=20009, state=held_state)
    on = nodes(replicas=[clusters.replica("a-1", held, of="a")])
    models = (MODEL, clusters.model("a"))
    still = clusters.running("a-1", of="a", state=held_state, http_port=20009)
    after = adopt(on, still, clusters.running(state=new_state, **shared), models=models)
    states = {k: r.state for k, r in after.cluster.replicas.items()}
    if winner == "a-1":
        assert set(after.unclaimed) == {"m-1.0"}
        assert set(states) == {"a-1"}
    else:
        assert after.unclaimed == {}
        assert states == {"a-1": ReplicaState.FAILED, "m-1": ReplicaState.READY}


def test_more_replicas_than_wanted_are_adopted_first_and_drained_then():
    reported = [
        clusters.running(f"m-{i}", http_port=20000 + i, state=state)
        for i, state in enumerate([ShardState.LOADING, ShardState.READY, ShardState.READY])
    ]
    on = adopt(nodes(), *reported).cluster
    assert len(on.replicas) == 3
    decision = decide(clusters.snapshot(MODEL, on=on))
    left = clusters.after(on, decision.actions)
    assert [r.replica_id for r in left.replicas.values() if r.state is ReplicaState.READY] == [
        "m-2"
    ]


def test_registration_told_twice_changes_nothing_more():
    once = adopt(nodes(), clusters.running(), half(1, replica_id="m-2", http_port=20001))
    twice = adopt(once.cluster, clusters.running(), half(1, replica_id="m-2", http_port=20001))
    assert twice.cluster == once.cluster
    assert twice.adopted == ()
