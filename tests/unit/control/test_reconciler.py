"""The pass as it runs: what agents say goes in, orders and route tables come out."""

from __future__ import annotations

import pytest

from llmgw.control.leadership.elector import SoleLeader
from llmgw.domain import catalog_rules
from llmgw.domain.nodes import HeartbeatFacts, NodeTarget
from llmgw.domain.replicas import ReplicaState, ShardState
from llmgw.domain.routes import Endpoint, ModelState, RouteTable
from llmgw.domain.snapshots import Bounds
from llmgw.domain.views import ModelStatus
from llmgw.errors import Conflict, Standby, Unknown
from llmgw.kit.clock import SystemClock
from tests.fakes import clusters
from tests.fakes.reconciled import Stage


class SwitchedLeader(SoleLeader):
    def __init__(self):
        self.leads = False

    def is_leader(self):
        return self.leads


async def serving(stage, *, count=1):
    """Let everything come up that is wanted."""

    def is_up():
        stage.obey()
        return len(stage.urls()) == count

    await stage.until(is_up)


async def pass_time(stage, *, seconds, heard):
    """Let time pass in steps, with a pass in each, while these nodes speak."""
    for _ in range(seconds // 3):
        stage.clock.advance(3)
        for node_id in heard:
            assert stage.reconciler.heartbeat(node_id, HeartbeatFacts())
        stage.reconciler.wake()
        await stage.until(lambda: stage.reconciler._pass_at == stage.clock.monotonic())


async def test_model_is_placed_started_and_published():
    async with Stage(clusters.model("m")).running() as stage:
        await stage.some_passes()
        assert stage.dispatcher.orders == []
        assert stage.reconciler.status().control.settling_left_s is not None
        stage.register("n1", mgmt_addr="10.0.0.7")
        await stage.until(lambda: stage.dispatcher.orders)
        view = stage.replica()
        assert view.state is ReplicaState.STARTING
        assert stage.urls() == []
        assert stage.reconciler.routes.current().models["m"].state is ModelState.LOADING
        stage.report(view, ShardState.LOADING)
        stage.report(view, ShardState.READY)
        await stage.until(stage.urls)
        assert stage.urls() == ["http://10.0.0.7:20000"]
        table = stage.reconciler.routes.current()
        assert table.models["m"].state is ModelState.READY
        await stage.some_passes()
        assert stage.reconciler.routes.current() is table
        assert stage.dispatcher.taken() == [("start", "n1", f"{view.replica_id}.0")]


async def test_many_replicas_do_not_wait_an_interval_each():
    stage = Stage(clusters.model("m", min=30), interval_s=60.0)
    async with stage.running():
        stage.register("n1")
        await serving(stage, count=30)
    assert len({v.shards[0].http_port for v in stage.reconciler.replicas()}) == 30


async def test_engine_that_dies_is_unpublished_and_comes_back_after_its_wait():
    async with Stage(clusters.model("m")).running() as stage:
        stage.register("n1")
        await serving(stage)
        first = stage.replica()
        stage.report(first, ShardState.FAILED, error="killed", exit_code=137)
        await stage.until(lambda: not stage.urls())
        (model,) = stage.reconciler.models()
        assert model.status is ModelStatus.BACKOFF
        assert (model.last_failure.error, model.last_failure.exit_code) == ("killed", 137)
        stage.clock.advance(11)
        stage.reconciler.heartbeat("n1", HeartbeatFacts())
        await serving(stage)
        assert stage.replica().replica_id != first.replica_id


async def test_wait_after_a_failure_ends_with_the_wait_and_not_with_the_interval():
    stage = Stage(
        clusters.model("m"),
        clock=SystemClock(),
        interval_s=60.0,
        bounds=Bounds(base_backoff_s=0.2),
    )
    async with stage.running():
        stage.register("n1")
        await serving(stage)
        first, failed_at = stage.replica(), stage.clock.monotonic()
        stage.report(first, ShardState.FAILED)
        await stage.until(lambda: not stage.urls())
        await serving(stage)
        assert stage.replica().replica_id != first.replica_id
        assert 0.1 < stage.clock.monotonic() - failed_at < 30.0


async def test_lost_node_is_rebuilt_elsewhere_and_must_register_again():
    async with Stage(clusters.model("m")).running() as stage:
        stage.register("n1", mgmt_addr="10.0.0.1")
        await serving(stage)
        stage.register("n2", mgmt_addr="10.0.0.2")
        await pass_time(stage, seconds=21, heard=["n2"])
        assert stage.reconciler.nodes()[0].state == "unreachable"
        assert stage.urls() == ["http://10.0.0.1:20000"]
        await pass_time(stage, seconds=42, heard=["n2"])
        await stage.until(lambda: stage.dispatcher.orders)
        await serving(stage)
        assert stage.urls() == ["http://10.0.0.2:20000"]
        assert not stage.reconciler.heartbeat("n1", HeartbeatFacts())
        assert not stage.reconciler.heartbeat("n9", HeartbeatFacts())


async def test_restart_serves_the_last_routes_adopts_and_starts_nothing():
    async with Stage(clusters.model("m", min=2), expected=("n1", "n2")).running() as before:
        before.register("n1", mgmt_addr="10.0.0.1")
        before.register("n2", mgmt_addr="10.0.0.2")
        await serving(before, count=2)
        last = before.reconciler.routes.current()
        views = {v.shards[0].node_id: v.replica_id for v in before.reconciler.replicas()}

    after = Stage(clusters.model("m", min=2), expected=("n1", "n2"), last_routes=last)
    assert after.reconciler.routes.current() is last
    async with after.running():
        await after.some_passes()
        assert len(after.urls()) == 2
        after.register(
            "n1", clusters.running(views["n1"], state=ShardState.STARTING), mgmt_addr="10.0.0.1"
        )
        await after.some_passes()
        assert len(after.urls()) == 2
        after.register(
            "n2", clusters.running(views["n2"], leader_addr="10.0.0.2"), mgmt_addr="10.0.0.2"
        )
        await after.some_passes()
        assert sorted(after.urls()) == ["http://10.0.0.1:20000", "http://10.0.0.2:20000"]
        assert after.dispatcher.orders == []
        assert after.reconciler.routes.current().models["m"].created_at == (
            last.models["m"].created_at
        )


async def test_endpoints_of_a_node_that_never_returns_go_after_their_time():
    last = routes_of_one_node()
    async with Stage(clusters.model("m"), last_routes=last).running() as stage:
        await pass_time(stage, seconds=57, heard=[])
        assert stage.urls() == ["http://10.0.0.1:20000"]
        stage.clock.advance(4)
        await stage.until(lambda: not stage.urls())


def routes_of_one_node():
    return RouteTable(
        number=9,
        endpoints=(
            Endpoint(endpoint_id="m-1", url="http://10.0.0.1:20000", models=("m",), node_id="n1"),
        ),
    )


async def test_node_that_returns_without_its_engine_ends_its_endpoint_at_once():
    last = routes_of_one_node()
    async with Stage(
        clusters.model("m"), expected=("n1", "n2"), last_routes=last
    ).running() as stage:
        await stage.until(stage.urls)
        stage.register("n1")
        await stage.until(lambda: not stage.urls())


async def test_unclaimed_shards_are_named_to_who_registers():
    async with Stage(clusters.model("m")).running() as stage:
        stray = clusters.running("old-1", of="gone", http_port=20000)
        assert stage.register("n1", stray, mgmt_addr="10.0.0.1") == ("old-1.0",)
        await serving(stage)
        assert stage.urls() == ["http://10.0.0.1:20001"]


async def test_standby_looks_on_and_a_new_leader_awaits_its_nodes():
    leadership = SwitchedLeader()
    stage = Stage(clusters.model("m"), leadership=leadership, expected=())
    async with stage.running():
        stage.register("n1")
        stage.clock.advance(100)
        stage.reconciler.heartbeat("n1", HeartbeatFacts())
        await stage.some_passes()
        assert stage.dispatcher.orders == []
        assert stage.reconciler.routes.current().number == 0
        leadership.leads = True
        await stage.until(lambda: stage.reconciler.routes.current().number)
        assert stage.dispatcher.orders == []
        assert stage.reconciler.status().control.settling_left_s == 30
        await pass_time(stage, seconds=33, heard=["n1"])
        await stage.until(lambda: stage.dispatcher.orders)


async def test_a_word_on_a_silent_node_is_kept_and_shown_beside_its_silence():
    async with Stage(clusters.model("m")).running() as stage:
        stage.register("n1")
        stage.register("n2")
        view = stage.say("n1", NodeTarget.CORDONED, reason="disk")
        assert (view.state, view.target) == ("cordoned", NodeTarget.CORDONED)
        await pass_time(stage, seconds=21, heard=["n2"])
        silent, other = stage.reconciler.nodes()
        assert (silent.state, silent.target, silent.flag_reason) == (
            "unreachable",
            NodeTarget.CORDONED,
            "disk",
        )
        assert other.target is NodeTarget.READY


async def test_only_a_node_that_is_gone_and_empty_is_forgotten():
    async with Stage(clusters.model("m")).running() as stage:
        stage.register("n1")
        await serving(stage)
        with pytest.raises(Conflict, match="n1 is connected and would register again"):
            stage.reconciler.instructions.forget_node("n1")
        stage.reconciler.stream_lost("n1")
        with pytest.raises(Conflict, match="n1 still holds m-"):
            stage.reconciler.instructions.forget_node("n1")
        stage.register("n2", mgmt_addr="10.0.0.2")
        await pass_time(stage, seconds=63, heard=["n2"])
        await serving(stage)
        assert [view.state for view in stage.reconciler.nodes()] == ["lost", "ready"]
        stage.reconciler.instructions.forget_node("n1")
        assert [view.node_id for view in stage.reconciler.nodes()] == ["n2"]
        with pytest.raises(Unknown):
            stage.reconciler.instructions.forget_node("n1")
        stage.register("n1")
        assert [view.state for view in stage.reconciler.nodes()] == ["ready", "ready"]


async def test_a_standby_takes_no_word_on_a_node():
    stage = Stage(clusters.model("m"), leadership=SwitchedLeader(), expected=())
    async with stage.running():
        stage.register("n1")
        with pytest.raises(Standby):
            stage.say("n1", NodeTarget.CORDONED)
        with pytest.raises(Standby):
            stage.reconciler.instructions.forget_node("n1")


async def test_own_standstill_makes_no_node_lost():
    async with Stage(clusters.model("m")).running() as stage:
        stage.register("n1")
        await serving(stage)
        stage.clock.advance(300)
        await stage.some_passes()
        assert stage.reconciler.nodes()[0].state == "ready"
        assert len(stage.urls()) == 1


async def test_what_agents_said_during_a_standstill_is_heard_before_anything_is_judged():
    """A start that came up meanwhile is not too late because nobody was there to hear of it."""
    stage = Stage(clusters.model("m"))
    stage.register("n1")
    await stage.reconciler._pass()
    view = stage.replica()
    stage.clock.advance(2000)
    await stage.reconciler._pass()
    assert stage.replica().state is ReplicaState.STARTING
    stage.report(view, ShardState.READY)
    await stage.reconciler._pass()
    assert stage.replica().state is ReplicaState.READY
    assert len(stage.urls()) == 1


async def test_fault_of_ours_in_one_order_stops_no_other_and_fails_its_replica():
    models = [clusters.model("a"), clusters.model("b", clusters.gpu_profile())]
    stage = Stage(*models, expected=("n1", "n2"))
    stage.dispatcher.broken = {"n1"}
    async with stage.running():
        stage.register("n1", weights=["/weights/m.gguf"])
        stage.register("n2", gpus=1)
        await stage.until(lambda: len(stage.reconciler.models()[0].reason) > 0)
        await stage.until(lambda: len(stage.dispatcher.orders) == 1)
        failed = stage.reconciler.models()[0]
        assert failed.status is ModelStatus.BACKOFF
        assert "a fault of ours" in failed.last_failure.error


async def test_new_catalog_is_seen_at_once():
    stage = Stage(clusters.model("m"), interval_s=60.0)
    async with stage.running():
        stage.register("n1")
        await serving(stage)
        stage.catalog.swap(catalog_rules.build([clusters.model("other")]))
        await stage.until(lambda: "other" in stage.reconciler.routes.current().models)
        assert [v.model for v in stage.reconciler.replicas() if v.drain_reason] == ["m"]
        await stage.until(lambda: len(stage.reconciler.replicas()) == 2)


async def test_pass_beside_the_loop_decides_alike_while_agents_report():
    stage = Stage(clusters.model("m", min=20), thread_above_s=-1.0)
    async with stage.running():
        stage.register("n1")
        await serving(stage, count=20)
        ports = {v.shards[0].http_port for v in stage.reconciler.replicas()}
    assert len(ports) == 20


async def test_stream_that_ends_is_shown_and_changes_nothing_else():
    async with Stage(clusters.model("m")).running() as stage:
        stage.register("n1")
        await serving(stage)
        stage.reconciler.stream_lost("n1")
        stage.reconciler.stream_lost("n9")
        await stage.some_passes()
        (node,) = stage.reconciler.nodes()
        assert (node.state, node.is_connected) == ("ready", False)
        assert len(stage.urls()) == 1


async def test_model_that_fits_nowhere_says_so_everywhere():
    async with Stage(clusters.model("m", clusters.gpu_profile())).running() as stage:
        stage.register("n1")
        await stage.until(lambda: stage.reconciler.models()[0].status is ModelStatus.UNPLACED)
        table = stage.reconciler.routes.current()
        assert table.models["m"].state is ModelState.NOT_PLACED
        explained = stage.reconciler.explain("m")
        assert explained.is_unplaced
        (profile,) = explained.profiles
        (verdict,) = profile.nodes
        assert (verdict.check, verdict.is_fit) == ("gpu_class", False)
        assert "no GPU" in stage.reconciler.models()[0].reason
        assert [u.model for u in stage.reconciler.status().unplaced] == ["m"]
        stage.reconciler.register(clusters.facts("n2", gpus=1), ())
        await serving(stage)


async def test_unknown_model_is_unknown():
    with pytest.raises(Unknown):
        Stage(clusters.model("m")).reconciler.explain("nobody")


async def test_stranger_on_a_port_costs_another_port_and_one_line(control_log):
    bounds = clusters.Bounds(port_range=(20000, 20001))
    async with Stage(clusters.model("m"), bounds=bounds).running() as stage:
        stage.register("n1")
        await stage.until(lambda: stage.dispatcher.orders)
        first = stage.replica()
        stage.report(first, ShardState.FAILED, error="port_in_use: 20000 is held by process 1 (x)")
        await stage.until(
            lambda: [r.shards[0].http_port for r in stage.reconciler.replicas()] == [20001]
        )
        (model,) = stage.reconciler.models()
        assert (model.last_failure, model.backoff_left_s) == (None, None)
        stage.report(stage.replica(), ShardState.FAILED, error="port_in_use: 20001 is held")
        await stage.until(lambda: not stage.reconciler.replicas())
        await stage.until(lambda: "port" in stage.reconciler.models()[0].reason)
        assert stage.reconciler.models()[0].last_failure is None
    events = [event for event, _ in control_log]
    assert events.count("port_avoided") == 2
    assert "replica_failed" not in events
    assert "shard_reported" not in events


async def test_node_that_beats_slower_than_the_patience_is_told_of_once(control_log):
    bounds = clusters.Bounds(unreachable_after_s=4.0)
    async with Stage(clusters.model("m"), bounds=bounds).running() as stage:
        stage.register("n1", heartbeat_s=5.0)
        stage.register("n1", heartbeat_s=5.0)
        stage.register("n2", heartbeat_s=1.0)
    told = [k for event, k in control_log if event == "unreachable_after_too_short"]
    assert [(k["node"], k["heartbeat_s"], k["counted_s"]) for k in told] == [("n1", 5.0, 15.0)]


async def test_who_leads_again_publishes_what_it_had_until_its_nodes_are_back():
    """Else the gateways beside it, which went on serving, would lose every endpoint for a while."""
    leadership = SwitchedLeader()
    leadership.leads = True
    stage = Stage(clusters.model("m"), leadership=leadership)
    async with stage.running():
        stage.register("n1")
        await serving(stage)
        urls, replica = stage.urls(), stage.replica()
        leadership.leads = False
        stage.reconciler.stand_by()
        await stage.some_passes()
        assert (stage.urls(), stage.reconciler.replicas()) == (urls, ())
        stage.clock.advance(300)
        leadership.leads = True
        await stage.some_passes()
        assert stage.urls() == urls
        assert stage.dispatcher.taken() == []
        stage.clock.advance(61)
        await stage.until(lambda: not stage.urls())
        assert replica.replica_id not in {r.replica_id for r in stage.reconciler.replicas()}


async def test_what_was_decided_in_a_lead_that_is_over_is_not_done():
    class Brief(SwitchedLeader):
        """Leads when a pass begins, and no more once it has decided."""

        def __init__(self):
            self.asked = 0

        def is_leader(self):
            self.asked += 1
            return self.asked % 2 == 1

    stage = Stage(clusters.model("m"), leadership=Brief())
    stage.register("n1")
    await stage.reconciler._pass()
    assert stage.dispatcher.orders == []
    assert stage.reconciler.replicas() == ()
