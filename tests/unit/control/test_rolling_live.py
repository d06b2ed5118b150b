"""Rolls and idle stops through the running reconciler, from the operator's and clients' word on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.domain import catalog_rules
from llmgw.domain.catalog import Scaling
from llmgw.domain.nodes import HeartbeatFacts
from llmgw.domain.replicas import ReplicaState
from llmgw.domain.snapshots import Bounds
from llmgw.errors import Unknown
from tests.fakes import clusters
from tests.fakes.gateways import FakeGateways
from tests.fakes.reconciled import Stage


def model(*args):
    return clusters.model("m", clusters.profile(args=args), aliases=("alias",))


def shown(stage):
    return next(view for view in stage.reconciler.models() if view.name == "m")


async def test_a_roll_that_somebody_asks_for_replaces_what_is_older_without_a_gap():
    stage = Stage(model("--old"), bounds=Bounds(canary_s=0.0))
    gateways = FakeGateways()
    stage.reconciler.join(gateways)
    stage.register("n1")
    async with stage.running():
        await stage.until(stage.reconciler.replicas)
        stage.obey()
        await stage.until(stage.urls)
        before = stage.replica().replica_id
        gateways.see(before, inflight=0)
        stage.catalog.swap(catalog_rules.build([model("--new")]))
        await stage.until(lambda: shown(stage).stale == 1)
        await stage.some_passes()
        assert stage.replica().replica_id == before, "an edit alone replaces nothing"

        view = stage.roll("alias")
        assert (view.name, view.roll) == ("m", "1 replica(s) of the older profile left to replace")
        await stage.until(lambda: len(stage.reconciler.replicas()) == 2)
        assert stage.urls(), "the old one serves"
        stage.obey()
        await stage.until(lambda: stage.obey() or len(stage.reconciler.replicas()) == 1)
        assert stage.replica().replica_id != before
        assert stage.replica().state is ReplicaState.READY
        await stage.until(lambda: (shown(stage).stale, shown(stage).roll) == (0, ""))


def test_a_roll_of_a_model_that_nobody_knows_is_refused():
    with pytest.raises(Unknown, match="the catalog has no model 'x'"):
        Stage(model()).roll("x")


async def test_a_loaded_model_that_nobody_uses_any_more_stops_and_is_loaded_again_when_asked_for():
    on_demand = replace(model(), scaling=Scaling(min=0, max=1, idle_timeout_s=600.0))
    stage, gateways = Stage(on_demand), FakeGateways()
    stage.reconciler.join(gateways)
    stage.register("n1")
    async with stage.running():
        await stage.until(lambda: stage.reconciler.status().control.settling_left_s is None)
        gateways.ask("m")
        await stage.until(stage.reconciler.replicas)
        stage.obey()
        await stage.until(stage.urls)
        gateways.ask()
        replica_id = stage.replica().replica_id
        gateways.see(replica_id, inflight=0, last_used_at=stage.clock.monotonic())
        stage.reconciler.heartbeat("n1", HeartbeatFacts())
        await stage.some_passes()
        assert stage.replica().state is ReplicaState.READY
        for _ in range(61):
            stage.clock.advance(10)
            stage.reconciler.heartbeat("n1", HeartbeatFacts())
        stage.reconciler.wake()
        await stage.until(lambda: stage.obey() or not stage.reconciler.replicas())
        gateways.ask("m")
        await stage.until(stage.reconciler.replicas)
