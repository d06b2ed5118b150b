"""Actions become orders, and what is recorded stays true when an order cannot be sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.reconciler.applying import Applier
from llmgw.control.reconciler.deciding import decide
from llmgw.domain.actions import Drain, ExpireNode, ForgetFailures, StopShards, StopStray
from llmgw.domain.nodes import Liveness
from llmgw.domain.replicas import ReplicaState, ShardState, Stray
from tests.fakes import clusters
from tests.fakes.clusters import NOW
from tests.fakes.dispatching import FakeDispatcher


@pytest.fixture
def dispatcher():
    return FakeDispatcher()


@pytest.fixture
def applier(dispatcher):
    return Applier(dispatcher)


def wide():
    model = clusters.model("m", clusters.wide_profile())
    on = clusters.cluster(*(clusters.node(f"n{i}", gpus=4, fabrics=["ib"]) for i in (1, 2)))
    (place,) = decide(clusters.snapshot(model, on=on)).actions
    return on, place


def test_rank_zero_is_started_first_and_the_workers_at_once(applier, dispatcher):
    on, place = wide()
    backwards = replace(place, specs=tuple(reversed(place.specs)))
    applier.apply(on, backwards, now=NOW)
    replica = place.replica.replica_id
    assert dispatcher.orders == [
        ("start", "n1", f"{replica}.0"),
        ("start", "n2", f"{replica}.1"),
    ]


def test_start_to_a_node_without_a_stream_fails_the_replica_and_frees_it(applier, dispatcher):
    on, place = wide()
    dispatcher.away = {"n2"}
    on = applier.apply(on, place, now=NOW)
    replica = on.replicas[place.replica.replica_id]
    assert replica.state is ReplicaState.FAILED
    model = clusters.model("m", clusters.wide_profile())
    for action in decide(clusters.snapshot(model, on=on)).actions:
        on = applier.apply(on, action, now=NOW)
    assert ("stop", "n1", replica.shards[0].shard_id) in dispatcher.orders
    assert "no stream" in on.failures["m"].error


def test_placement_is_void_when_somebody_else_has_come_to_hold_its_card(applier, dispatcher):
    on, place = wide()
    taken = clusters.replica(
        "a-1", clusters.shard("a-1", gpu_indices=(3,), http_port=20900), of="a"
    )
    meanwhile = replace(on, replicas={"a-1": taken})
    assert applier.apply(meanwhile, place, now=NOW) is meanwhile
    assert dispatcher.orders == []


def test_placement_is_void_when_its_port_is_taken_meanwhile(applier, dispatcher):
    on, place = wide()
    stray = Stray(node_id="n2", shard_id="x.0", http_port=20000)
    meanwhile = replace(on, strays={("n2", "x.0"): stray})
    assert applier.apply(meanwhile, place, now=NOW) is meanwhile
    assert dispatcher.orders == []


def test_stop_and_drain_go_to_what_runs(applier, dispatcher):
    shards = (
        clusters.shard(node_id="n1"),
        clusters.shard(node_id="n2", rank=1, state=ShardState.FAILED),
    )
    on = clusters.cluster(
        clusters.node("n1"), clusters.node("n2"), replicas=[clusters.replica("m-1", *shards)]
    )
    on = applier.apply(on, Drain("m-1", reason="x"), now=NOW)
    on = applier.apply(on, StopShards("m-1", ("m-1.0", "m-1.1"), reason="x"), now=NOW)
    assert dispatcher.orders == [("drain", "n1", "m-1.0"), ("stop", "n1", "m-1.0")]
    assert on.replicas["m-1"].shards[0].stop_asked_at == NOW


def test_stop_that_cannot_be_sent_is_kept_in_mind(applier, dispatcher):
    dispatcher.away = {"n1"}
    on = clusters.cluster(clusters.node("n1"), replicas=[clusters.replica()])
    on = applier.apply(on, Drain("m-1", reason="x"), now=NOW)
    on = applier.apply(on, StopShards("m-1", ("m-1.0",), reason="x"), now=NOW)
    assert dispatcher.orders == []
    assert on.replicas["m-1"].shards[0].is_stop_asked


def test_stray_is_told_to_end(applier, dispatcher):
    stray = Stray(node_id="n1", shard_id="x.0", http_port=1)
    on = clusters.cluster(clusters.node("n1"), strays=[stray])
    on = applier.apply(on, StopStray("n1", "x.0", reason="x"), now=NOW)
    assert dispatcher.orders == [("stop", "n1", "x.0")]
    assert on.strays["n1", "x.0"].ordered_at == NOW


@pytest.mark.parametrize(
    "action",
    [
        StopShards("gone", ("gone.0",), reason="x"),
        Drain("gone", reason="x"),
        StopStray("n1", "gone.0", reason="x"),
        ForgetFailures("gone", reason="x"),
        ExpireNode("n1", Liveness.LOST, last_seen_at=NOW - 70, reason="x"),
        ExpireNode("gone", Liveness.LOST, last_seen_at=NOW, reason="x"),
    ],
    ids=lambda action: type(action).__name__,
)
def test_action_on_what_has_changed_meanwhile_does_nothing(applier, dispatcher, action):
    on = clusters.cluster(clusters.node("n1"))
    assert applier.apply(on, action, now=NOW) is on
    assert dispatcher.orders == []
