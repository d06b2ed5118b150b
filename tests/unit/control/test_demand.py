"""What requests ask for is loaded once, and what gateways see decides what ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.reconciler import advancing, demand, expecting
from llmgw.control.reconciler.deciding import decide
from llmgw.domain import catalog_rules
from llmgw.domain.actions import Drain, MarkFailed, Place, StopShards
from llmgw.domain.nodes import HeartbeatFacts, NodeTarget
from llmgw.domain.replicas import FetchProgress, ReplicaState, ShardState
from llmgw.domain.routes import Endpoint, EndpointState, ModelState, RouteTable
from llmgw.domain.traffic import EndpointTraffic, Traffic
from llmgw.domain.views import ModelStatus
from llmgw.domain.work import ShardWork
from tests.fakes import clusters
from tests.fakes.clusters import NOW
from tests.fakes.gateways import FakeGateways
from tests.fakes.reconciled import Stage

ON_DEMAND = {"min": 0, "max": 1}


def traffic(*, settled=True, asked=(), **endpoints):
    figures = {name.replace("_", "-"): one for name, one in endpoints.items()}
    return Traffic(figures, frozenset(asked), has_latest_table=settled)


def placed(decision):
    return [a.replica.model for a in decision.actions if isinstance(a, Place)]


@pytest.fixture
async def stage():
    """A reconciler with one node and gateways that nobody uses yet."""
    stage = Stage(clusters.model("m", **ON_DEMAND), clusters.model("off", min=0, max=0))
    stage.gateways = FakeGateways()
    stage.reconciler.join(stage.gateways)
    stage.register("n1")
    async with stage.running():
        await stage.until(lambda: stage.reconciler.status().control.settling_left_s is None)
        yield stage


def model_state(stage, name="m"):
    return stage.reconciler.routes.current().models[name].state


def shown(stage, name="m"):
    return next(m for m in stage.reconciler.models() if m.name == name)


# Loading


@pytest.mark.parametrize(
    ("scaling", "count"),
    [({"min": 0, "max": 1}, 1), ({"min": 0, "max": 4}, 1), ({"min": 0, "max": 0}, 0)],
    ids=["on-demand", "however-high-max-is", "off"],
)
def test_what_is_asked_for_is_wanted_once_and_what_is_off_never(scaling, count):
    model = clusters.model("m", **scaling)
    on = clusters.cluster(clusters.node("n1"))
    asked = frozenset({"m"})
    first = decide(clusters.snapshot(model, on=on, asked=asked))
    assert placed(first) == ["m"] * count
    again = decide(clusters.snapshot(model, on=clusters.after(on, first.actions), asked=asked))
    assert placed(again) == []


def test_a_name_that_nobody_knows_loads_nothing():
    on = clusters.cluster(clusters.node("n1"))
    asked = frozenset({"typo"})
    assert decide(clusters.snapshot(clusters.model("m"), on=on, asked=asked)).faults == ()
    only = clusters.snapshot(clusters.model("m", **ON_DEMAND), on=on, asked=asked)
    assert decide(only).actions == ()


async def test_a_request_loads_a_model_once_and_it_stays_when_nobody_asks_any_more(stage):
    assert model_state(stage) is ModelState.ON_DEMAND
    assert shown(stage).status is ModelStatus.ON_DEMAND
    stage.gateways.ask("m")
    await stage.until(stage.reconciler.replicas)
    await stage.until(lambda: model_state(stage) is ModelState.LOADING)
    view = shown(stage)
    assert (view.status, view.want, view.is_asked) == (ModelStatus.LOADING, 1, True)

    stage.gateways.ask()
    stage.obey()
    await stage.until(lambda: model_state(stage) is ModelState.READY)
    await stage.some_passes()
    assert stage.replica().state is ReplicaState.READY
    assert [order for order, *_ in stage.dispatcher.orders] == []
    assert shown(stage).status is ModelStatus.READY


async def test_a_model_that_is_off_is_never_loaded(stage):
    stage.gateways.ask("off")
    await stage.some_passes()
    assert stage.reconciler.replicas() == ()
    assert model_state(stage, "off") is ModelState.NOT_PLACED


async def test_a_load_that_fails_is_told_with_its_cause_and_tried_again_when_asked_later(stage):
    stage.gateways.ask("m")
    await stage.until(stage.reconciler.replicas)
    stage.report(stage.replica(), ShardState.FAILED, error="out of GPU memory")
    await stage.until(lambda: model_state(stage) is ModelState.FAILED)
    assert "out of GPU memory" in stage.reconciler.routes.current().models["m"].failure
    assert shown(stage).status is ModelStatus.BACKOFF
    assert "out of GPU memory" in shown(stage).last_failure.error

    stage.gateways.ask()
    assert shown(stage).status is ModelStatus.BACKOFF, "also when nobody asks any more"
    stage.obey()
    stage.clock.advance(20)
    stage.reconciler.wake()
    await stage.until(lambda: model_state(stage) is ModelState.ON_DEMAND)
    assert stage.reconciler.replicas() == (), "nobody waits for it any more"
    stage.gateways.ask("m")
    await stage.until(stage.reconciler.replicas)


async def test_a_wish_that_was_withdrawn_before_anything_began_loads_nothing():
    stage = Stage(clusters.model("m", **ON_DEMAND), expected=("n1", "n2"))
    gateways = FakeGateways()
    stage.reconciler.join(gateways)
    stage.register("n1")
    async with stage.running():
        gateways.ask("m")
        await stage.some_passes()
        assert model_state(stage) is ModelState.LOADING, "told so while nodes are awaited"
        assert stage.reconciler.replicas() == ()
        gateways.ask()
        stage.register("n2")
        await stage.some_passes()
        assert stage.reconciler.replicas() == ()


async def test_requests_for_a_model_that_fits_nowhere_do_not_change_the_routes_again_and_again():
    stage = Stage(clusters.model("m", clusters.gpu_profile(), **ON_DEMAND))
    gateways = FakeGateways()
    stage.reconciler.join(gateways)
    stage.register("n1")
    async with stage.running():
        await stage.until(lambda: stage.reconciler.status().control.settling_left_s is None)
        gateways.ask("m")
        await stage.until(lambda: model_state(stage) is ModelState.NOT_PLACED)
        number = stage.reconciler.routes.current().number
        for _ in range(5):
            gateways.ask()
            await stage.some_passes()
            gateways.ask("m")
            await stage.some_passes()
        assert stage.reconciler.routes.current().number == number
        assert shown(stage).status is ModelStatus.UNPLACED
        gateways.ask()
        stage.clock.advance(11)
        stage.reconciler.wake()
        await stage.until(lambda: model_state(stage) is ModelState.ON_DEMAND)


# In use


@pytest.mark.parametrize(
    ("seen", "is_asked"),
    [
        (EndpointTraffic(inflight=1), True),
        (EndpointTraffic(inflight=0, last_used_at=NOW - 59), True),
        (EndpointTraffic(inflight=0, last_used_at=NOW - 61), False),
        (EndpointTraffic(inflight=0), False),
    ],
    ids=["in-flight", "just-now", "a-while-ago", "never"],
)
def test_a_model_that_is_used_is_asked_for(seen, is_asked):
    on = clusters.cluster(replicas=[clusters.replica("m-1")])
    used_at = demand.used({}, cluster=on, traffic=traffic(m_1=seen), now=NOW)
    assert (
        "m" in demand.asked(used_at, traffic=Traffic(), waited_at={}, refused=(), now=NOW)
    ) is is_asked


def test_an_on_demand_model_whose_replica_dies_under_its_users_is_replaced():
    on = clusters.cluster(clusters.node("n1"))
    model = clusters.model("m", **ON_DEMAND)
    asked = demand.asked({"m": NOW - 10}, traffic=Traffic(), waited_at={}, refused=(), now=NOW)
    assert placed(decide(clusters.snapshot(model, on=on, asked=asked))) == ["m"]


def test_an_on_demand_replica_in_use_moves_off_a_draining_node_and_an_idle_one_just_goes():
    model = clusters.model("m", **ON_DEMAND)
    nodes = (clusters.node("n1", flags={"is_draining": True}), clusters.node("n2"))
    on = clusters.cluster(*nodes, replicas=[clusters.replica("m-1", of="m")])
    idle = decide(clusters.snapshot(model, on=on))
    assert [type(a) for a in idle.actions if isinstance(a, (Drain, Place))] == [Drain]
    used = decide(clusters.snapshot(model, on=on, asked=frozenset({"m"})))
    assert [type(a) for a in used.actions if isinstance(a, (Drain, Place))] == [Place]


# Draining


def drained_table(state=EndpointState.DRAINING):
    return RouteTable(endpoints=(Endpoint("m-1", "http://x", ("m",), state=state),))


@pytest.mark.parametrize(
    ("table", "seen", "known"),
    [
        (drained_table(), traffic(m_1=EndpointTraffic(2)), {"m-1": 2}),
        (drained_table(), traffic(settled=False, m_1=EndpointTraffic(0)), {}),
        (drained_table(EndpointState.READY), traffic(m_1=EndpointTraffic(0)), {}),
        (drained_table(), traffic(), {}),
    ],
    ids=["known", "somebody-may-still-send", "not-published-yet", "not-on-the-board"],
)
def test_what_drains_counts_as_empty_only_once_nobody_can_send_to_it(table, seen, known):
    assert demand.draining_inflight(table, seen) == known


def draining(*, is_drained=False):
    shard = clusters.shard("m-1", is_drained=is_drained)
    held = clusters.replica("m-1", shard)
    return replace(held, drain_since_at=NOW - 5, drain_reason="surplus")


@pytest.mark.parametrize(
    ("inflight", "engine_says_so", "is_stopped"),
    [(0, False, True), (3, True, False), (None, True, True), (None, False, False)],
    ids=["gateways-have-none", "gateways-have-some", "its-engines-word", "nobody-knows"],
)
def test_a_drain_ends_when_the_gateways_have_nothing_under_way(
    inflight, engine_says_so, is_stopped
):
    held = draining(is_drained=engine_says_so)
    known = {} if inflight is None else {"m-1": inflight}
    on = clusters.cluster(clusters.node("n1"), replicas=[held])
    snapshot = clusters.snapshot(clusters.model("m"), on=on, draining_inflight=known)
    step = advancing.next_step(held, snapshot)
    assert isinstance(step, StopShards) is is_stopped


def test_a_drain_ends_after_its_grace_whatever_is_under_way():
    held = replace(draining(), drain_since_at=NOW - 60)
    on = clusters.cluster(clusters.node("n1"), replicas=[held])
    snapshot = clusters.snapshot(clusters.model("m"), on=on, draining_inflight={"m-1": 9})
    assert isinstance(advancing.next_step(held, snapshot), StopShards)


async def test_a_replica_that_drains_is_stopped_when_its_last_request_ends_and_not_before():
    stage = Stage(clusters.model("m"))
    gateways = FakeGateways()
    stage.reconciler.join(gateways)
    stage.register("n1")
    async with stage.running():
        await stage.until(stage.reconciler.replicas)
        stage.obey()
        await stage.until(stage.urls)
        replica_id = stage.replica().replica_id
        gateways.see(replica_id, inflight=1)
        stage.catalog.swap(catalog_rules.build([clusters.model("m", min=0, max=0)]))
        await stage.until(lambda: stage.replica().state is ReplicaState.DRAINING)
        await stage.some_passes()
        assert ("stop", "n1", f"{replica_id}.0") not in stage.dispatcher.orders
        gateways.see(replica_id, inflight=0)
        gateways.tell()
        await stage.until(lambda: ("stop", "n1", f"{replica_id}.0") in stage.dispatcher.orders)


# Hanging


@pytest.mark.parametrize(
    ("seen", "settled", "is_failed"),
    [
        (EndpointTraffic(1, ejected_at=NOW - 120, is_stalled=True), True, True),
        (EndpointTraffic(1, ejected_at=NOW - 119, is_stalled=True), True, False),
        (EndpointTraffic(1, ejected_at=NOW - 120, is_stalled=False), True, False),
        (EndpointTraffic(1, ejected_at=NOW - 120, is_stalled=True), False, False),
        (EndpointTraffic(1), True, False),
    ],
    ids=["stalled", "not-long-enough", "silent-is-its-agents", "gateways-unsure", "well"],
)
def test_a_replica_that_answers_and_does_nothing_is_given_up_after_two_minutes(
    seen, settled, is_failed
):
    held = clusters.replica("m-1")
    on = clusters.cluster(clusters.node("n1"), replicas=[held])
    told = traffic(settled=settled, m_1=seen)
    step = advancing.next_step(held, clusters.snapshot(clusters.model("m"), on=on, traffic=told))
    assert isinstance(step, MarkFailed) is is_failed
    if isinstance(step, MarkFailed):
        assert step.reason.startswith("no progress")


async def test_a_stalled_engine_is_stopped_and_another_one_started():
    stage = Stage(clusters.model("m"))
    gateways = FakeGateways()
    stage.reconciler.join(gateways)
    stage.register("n1")
    async with stage.running():
        await stage.until(stage.reconciler.replicas)
        stage.obey()
        await stage.until(stage.urls)
        replica_id = stage.replica().replica_id
        ejected_at = stage.clock.monotonic() - 200
        gateways.see(replica_id, inflight=1, ejected_at=ejected_at, is_stalled=True)
        assert stage.replica().ejected_s == pytest.approx(200)
        stage.reconciler.wake()
        await stage.until(lambda: stage.urls() == [])
        assert ("stop", "n1", f"{replica_id}.0") in stage.dispatcher.orders
        assert "no progress" in shown(stage).last_failure.error


# What agents see


async def test_what_an_agent_sees_of_an_engine_reaches_the_gateways():
    stage = Stage(clusters.model("m"))
    gateways = FakeGateways()
    stage.reconciler.join(gateways)
    stage.register("n1")
    async with stage.running():
        await stage.until(stage.reconciler.replicas)
        replica_id = stage.replica().replica_id

        def beat(cpu_time_s):
            work = (ShardWork(f"{replica_id}.0", cpu_time_s), ShardWork("unknown-1.0", 1.0))
            assert stage.reconciler.heartbeat("n1", HeartbeatFacts(shard_work=work))
            return stage.clock.monotonic()

        beat(10.0)
        assert gateways.told == [], "one figure alone tells nothing"
        stage.clock.advance(5)
        first = beat(12.0)
        stage.clock.advance(5)
        second = beat(12.1)
    assert gateways.told == [(replica_id, first, first), (replica_id, first, second)]


async def test_replicas_show_what_is_under_way_and_nobody_is_idle_who_was_never_used():
    stage = Stage(clusters.model("m"))
    gateways = FakeGateways()
    stage.reconciler.join(gateways)
    stage.register("n1")
    async with stage.running():
        await stage.until(stage.reconciler.replicas)
        replica_id = stage.replica().replica_id
        assert (stage.replica().inflight, stage.replica().idle_s) == (None, None)
        gateways.see(replica_id, inflight=0)
        assert (stage.replica().inflight, stage.replica().idle_s) == (0, None)
        gateways.see(replica_id, inflight=0, last_used_at=stage.clock.monotonic() - 7)
        assert stage.replica().idle_s == 7
        gateways.see(replica_id, inflight=2, last_used_at=stage.clock.monotonic() - 7)
        assert (stage.replica().inflight, stage.replica().idle_s) == (2, 0)


# When it will serve


def test_a_load_is_expected_to_take_as_long_as_the_last_one():
    held = clusters.replica("m-1", clusters.shard(state=ShardState.LOADING), now=NOW)
    on = clusters.cluster(replicas=[held], load_times={("m", "cpu"): 40.0})
    model = clusters.model("m")
    assert expecting.ready_at(held, clusters.snapshot(model, on=on, now=NOW + 5)) == NOW + 40
    assert expecting.ready_at(held, clusters.snapshot(model, on=on, now=NOW + 41)) is None
    unknown = clusters.cluster(replicas=[held])
    assert expecting.ready_at(held, clusters.snapshot(model, on=unknown, now=NOW + 5)) is None


def test_a_download_is_expected_to_go_on_at_its_pace():
    fetch = FetchProgress("https://x/m.gguf", done_bytes=250, total_bytes=1000)
    shard = clusters.shard(state=ShardState.PENDING, fetch=fetch)
    held = clusters.replica("m-1", shard, now=NOW)
    snapshot = clusters.snapshot(
        clusters.model("m"), on=clusters.cluster(replicas=[held]), now=NOW + 60
    )
    assert expecting.ready_at(held, snapshot) == NOW + 240


async def test_clients_and_operators_hear_when_a_model_will_serve(stage):
    stage.gateways.ask("m")
    await stage.until(stage.reconciler.replicas)
    stage.clock.advance(40)
    stage.obey()
    await stage.until(lambda: model_state(stage) is ModelState.READY)

    stage.gateways.ask()
    stage.gateways.see(stage.replica().replica_id, inflight=0)
    stage.say("n1", NodeTarget.DRAINING)
    await stage.until(lambda: stage.obey() or not stage.reconciler.replicas())
    stage.say("n1", NodeTarget.READY)
    stage.gateways.ask("m")
    await stage.until(lambda: model_state(stage) is ModelState.LOADING)
    await stage.until(lambda: shown(stage).ready_in_s is not None)
    assert shown(stage).ready_in_s == pytest.approx(40)
    expected_at = stage.reconciler.routes.current().models["m"].ready_expected_at
    assert expected_at == pytest.approx(stage.clock.wall() + 40, abs=1)


async def test_a_time_of_day_that_is_set_meanwhile_moves_what_clients_are_told(stage):
    stage.gateways.ask("m")
    await stage.until(stage.reconciler.replicas)
    stage.clock.advance(40)
    stage.obey()
    await stage.until(lambda: model_state(stage) is ModelState.READY)
    stage.clock.jump(stage.clock.wall() + 86_400)
    stage.gateways.ask()
    stage.gateways.see(stage.replica().replica_id, inflight=0)
    stage.say("n1", NodeTarget.DRAINING)
    await stage.until(lambda: stage.obey() or not stage.reconciler.replicas())
    stage.say("n1", NodeTarget.READY)
    stage.gateways.ask("m")
    await stage.until(lambda: told(stage) is not None)
    assert told(stage) == pytest.approx(stage.clock.wall() + 40, abs=1)


def told(stage):
    """When a client is told that the model will serve."""
    return stage.reconciler.routes.current().models["m"].ready_expected_at
