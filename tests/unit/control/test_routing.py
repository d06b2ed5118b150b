"""The route table that follows from replicas, and when it is published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.reconciler import routing
from llmgw.control.reconciler.announcing import Announcing
from llmgw.control.reconciler.routing import Routes
from llmgw.domain.nodes import Liveness
from llmgw.domain.replicas import ShardState
from llmgw.domain.routes import Endpoint, EndpointState, ModelState, RouteTable
from llmgw.domain.snapshots import Failures
from llmgw.domain.traffic import EndpointTraffic, Traffic
from tests.fakes import clusters
from tests.fakes.clusters import NOW

PROFILE = clusters.profile(weight=3.0)
MODEL = clusters.model(
    "m", PROFILE, aliases=("em",), context_length=4096, capabilities=("tools",), description="d"
)


def build(*replicas, models=(MODEL,), carried=(), refused=(), on=None, **others):
    on = on or clusters.cluster(clusters.node("n1"), replicas=replicas)
    return routing.build(
        clusters.snapshot(*models, on=on, **others),
        carried=carried,
        refused=refused,
        created_at=123,
        term=5,
    )


def state(table, name="m"):
    return table.models[name].state


def test_ready_replica_is_an_endpoint_under_all_names_of_its_model():
    table = build(clusters.replica(pool="ib/x"))
    (endpoint,) = table.endpoints
    assert endpoint == Endpoint(
        endpoint_id="m-1",
        url="http://10.0.0.1:20000",
        models=("m", "em"),
        engine="sim",
        node_id="n1",
        pool="ib/x",
        weight=3.0,
        upstream_model="m",
        context_length=4096,
        capabilities=("tools",),
    )
    assert table.canonical == {"m": "m", "em": "m"}
    listed = table.models["m"]
    assert (listed.state, listed.created_at, listed.owned_by) == (
        ModelState.READY,
        123,
        "llmgw-sim",
    )
    assert (listed.description, listed.aliases) == ("d", ("em",))
    assert table.term == 5


def recheck(replica):
    shard = replace(replica.shards[0], state=ShardState.STARTING)
    return replace(replica, shards=(shard,), unready_at=NOW)


def drain(replica):
    return replace(replica, drain_since_at=NOW)


def stop(replica):
    return replace(drain(replica), shards=(replace(replica.shards[0], stop_asked_at=NOW),))


def fail(replica):
    return replace(replica, failed_at=NOW, failure="x")


def end(replica):
    return replace(replica, shards=(replace(replica.shards[0], state=ShardState.FAILED),))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda r: r, EndpointState.READY),
        (recheck, EndpointState.READY),
        (drain, EndpointState.DRAINING),
        (stop, None),
        (fail, None),
        (end, None),
    ],
    ids=["ready", "looked-at-again", "draining", "stop-asked", "given-up", "shard-failed"],
)
def test_endpoint_stands_while_its_engine_may_be_sent_to(change, expected):
    endpoints = build(change(clusters.replica())).endpoints
    assert [e.state for e in endpoints] == ([] if expected is None else [expected])


def test_replica_that_has_never_been_ready_is_no_endpoint():
    loading = clusters.replica("m-1", clusters.shard(state=ShardState.LOADING))
    assert build(loading).endpoints == ()


def test_replica_on_an_unreachable_node_stays_published():
    node = clusters.node("n1", liveness=Liveness.UNREACHABLE)
    table = build(on=clusters.cluster(node, replicas=[clusters.replica()]))
    assert len(table.endpoints) == 1


def test_replica_of_a_model_that_is_gone_is_no_endpoint():
    assert build(clusters.replica(), models=[clusters.model("other")]).endpoints == ()


def test_half_without_rank_zero_publishes_nothing():
    half = clusters.replica("m-1", clusters.shard(rank=1), want_shards=2, adopted_at=NOW)
    assert build(replace(half, ready_at=NOW)).endpoints == ()


LOADING = clusters.replica("m-1", clusters.shard(state=ShardState.LOADING))


@pytest.mark.parametrize(
    ("replicas", "model", "refused", "expected"),
    [
        ([LOADING], MODEL, [], ModelState.LOADING),
        ([], MODEL, [], ModelState.LOADING),
        ([], MODEL, ["m"], ModelState.NOT_PLACED),
        ([LOADING], MODEL, ["m"], ModelState.LOADING),
        ([], clusters.model("m", min=0, max=1), [], ModelState.ON_DEMAND),
        ([LOADING], clusters.model("m", min=0, max=1), [], ModelState.LOADING),
        ([], clusters.model("m", min=0, max=0), [], ModelState.NOT_PLACED),
        ([drain(clusters.replica())], MODEL, [], ModelState.LOADING),
    ],
    ids=[
        "starting",
        "will-be-placed",
        "fits-nowhere",
        "one-starts-and-another-fits-nowhere",
        "on-demand",
        "on-demand-loading",
        "off",
        "only-a-draining-one",
    ],
)
def test_model_without_an_endpoint_says_what_is_going_on(replicas, model, refused, expected):
    table = build(*replicas, models=[model], refused=refused)
    assert state(table) is expected
    assert table.models["m"].retry_after_s == 10


@pytest.mark.parametrize(("waits_s", "expected_s"), [(5, 10), (38.2, 39), (600, 60)])
def test_model_that_waits_after_a_failure_says_when_to_ask_again(waits_s, expected_s):
    held = Failures(
        definition=MODEL,
        count=1,
        until_at=NOW + waits_s,
        failed_at=NOW,
        replica_id="m-0",
        profile="cpu",
        error="x",
    )
    on = replace(clusters.cluster(clusters.node("n1")), failures={"m": held})
    for now in (NOW, NOW + waits_s / 2):
        assert build(on=on, now=now).models["m"].retry_after_s == expected_s


FAILED = Failures(
    definition=MODEL,
    count=6,
    until_at=NOW + 60,
    failed_at=NOW,
    replica_id="m-0",
    profile="cpu",
    error="sim-engine ended unexpectedly with exit code 2",
    last_output=("[sim] token=abc",),
)


@pytest.mark.parametrize(
    ("replicas", "scaling", "after_s", "expected"),
    [
        ([], {}, 0, ModelState.FAILED),
        ([LOADING], {}, 0, ModelState.LOADING),
        ([], {}, 60, ModelState.LOADING),
        ([clusters.replica()], {}, 0, ModelState.READY),
        ([], {"min": 0, "max": 1}, 0, ModelState.FAILED),
        ([], {"min": 0, "max": 0}, 0, ModelState.NOT_PLACED),
    ],
    ids=["waits", "tries-again", "may-try-again", "another-serves", "on-demand", "off"],
)
def test_model_that_does_not_start_is_not_said_to_load(replicas, scaling, after_s, expected):
    model = clusters.model("m", PROFILE, **scaling)
    on = clusters.cluster(clusters.node("n1"), replicas=replicas)
    on = replace(on, failures={"m": replace(FAILED, definition=model)})
    table = build(models=[model], on=on, now=NOW + after_s)
    assert state(table) is expected
    cause = FAILED.error if expected is ModelState.FAILED else ""
    assert table.models["m"].failure == cause


def test_cause_of_a_failure_is_capped_for_clients():
    failures = {"m": replace(FAILED, error="x" * 5000)}
    on = replace(clusters.cluster(clusters.node("n1")), failures=failures)
    assert len(build(on=on).models["m"].failure) == 300


def test_ready_model_needs_no_second_asking():
    assert build(clusters.replica()).models["m"].retry_after_s is None


def test_fallbacks_are_listed_by_their_own_names():
    other = clusters.model("other", aliases=("o",))
    model = replace(MODEL, fallbacks=("o", "other"))
    assert build(models=[model, other]).models["m"].fallbacks == ("other",)


# After a restart

LAST = RouteTable(
    number=41,
    endpoints=(
        Endpoint(endpoint_id="m-1", url="http://10.0.0.1:1", models=("m",), node_id="n1"),
        Endpoint(endpoint_id="m-2", url="http://10.0.0.2:1", models=("m",), node_id="n2"),
        Endpoint(endpoint_id="x", url="http://10.0.0.3:1", models=("m",)),
    ),
)


def test_endpoints_of_nodes_that_have_not_returned_are_carried_over():
    carried = routing.carried_over(LAST, registered=["n1"])
    assert [e.endpoint_id for e in carried] == ["m-2"]


@pytest.mark.parametrize(
    ("passed_s", "answered_ago_s", "left"),
    [(59, None, 2), (60, None, 0), (60, 1.0, 1), (60, 16.0, 0), (299, 1.0, 1), (300, 1.0, 0)],
)
def test_what_was_published_before_stands_for_its_time_and_longer_while_it_answers(
    clock, passed_s, answered_ago_s, left
):
    announcing = Announcing(LAST, clock=clock, bounds=clusters.Bounds())
    clock.advance(passed_s)
    answered_at = None if answered_ago_s is None else clock.monotonic() - answered_ago_s
    traffic = Traffic({"m-2": EndpointTraffic(0, answered_at=answered_at)})
    carried = announcing.carried((), traffic=traffic, is_patient=False)
    assert len(carried) == left
    assert len(announcing.carried((), traffic=traffic, is_patient=True)) == 2


def test_carried_endpoint_is_served_and_yields_to_the_replica_itself():
    carried = routing.carried_over(LAST, registered=[])
    table = build(carried=carried)
    assert [e.endpoint_id for e in table.endpoints] == ["m-1", "m-2"]
    assert state(table) is ModelState.READY
    table = build(clusters.replica(), carried=carried)
    assert [e.url for e in table.endpoints] == ["http://10.0.0.1:20000", "http://10.0.0.2:1"]


def test_carried_endpoint_of_a_model_that_is_gone_is_dropped():
    carried = routing.carried_over(LAST, registered=[])
    assert build(models=[clusters.model("other")], carried=carried).endpoints == ()


# Publishing


def test_table_is_published_only_when_it_says_something_new():
    routes, seen = Routes(LAST), []
    unsubscribe = routes.subscribe(seen.append)
    table = build(clusters.replica())
    assert routes.publish(table)
    assert not routes.publish(build(clusters.replica()))
    assert routes.publish(build())
    assert [t.number for t in seen] == [42, 43]
    assert routes.current() is seen[-1]
    unsubscribe()
    unsubscribe()
    assert routes.publish(table)
    assert len(seen) == 2


def test_fault_of_one_reader_is_not_the_others():
    routes, seen = Routes(RouteTable()), []

    def broken(_table):
        raise RuntimeError("reader")

    routes.subscribe(broken)
    routes.subscribe(seen.append)
    assert routes.publish(build())
    assert len(seen) == 1


def test_order_of_replicas_does_not_change_the_table():
    one, two = clusters.replica("m-1"), clusters.replica("m-2")
    assert build(one, two) == build(two, one)
