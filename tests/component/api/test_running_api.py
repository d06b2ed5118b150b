"""What the admin API tells of engines, measurements, the brake and past decisions."""

from __future__ import annotations

import dataclasses

import httpx
import pytest

from llmgw.api.application import create_app
from llmgw.domain.nodes import EngineInstall, InstallState
from llmgw.domain.status_views import BrakeView
from llmgw.kit.clock import SystemClock
from llmgw.serve.measured import Measured
from tests.fakes.fleet import GPU_NODE, FakeFleet, FakeReadiness, control_of

SLO = {"ttft_p95_s": 2.0, "tpot_p95_s": 0.1, "error_share": 0.0}
RESULT = {"concurrency": 12, "tokens_per_s": 800.0, "requests_per_s": 6.0}


@pytest.fixture
def fleet():
    return FakeFleet()


@pytest.fixture
def control(fleet):
    return control_of(fleet)


def asking(control):
    app = create_app(readiness=FakeReadiness(), control=control)
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:9090/api/v1")


async def test_engines_are_told_with_their_nodes_and_with_what_is_missing(fleet, control):
    wanted = EngineInstall("sglang", "0.5.4", "", InstallState.FAILED, "no space left")
    fleet.node_views = [dataclasses.replace(GPU_NODE, engine_installs=(wanted,))]
    async with asking(control) as client:
        engines = (await client.get("/engines")).json()["engines"]
        only = (await client.get("/engines", params={"engine": "sglang"})).json()["engines"]
    assert engines == [
        {
            "engine": "sglang",
            "version": "0.5.4",
            "node_ids": [],
            "troubles": [{"node_id": "gpu01", "state": "failed", "detail": "no space left"}],
        },
        {"engine": "vllm", "version": "0.11.0", "node_ids": ["gpu01"], "troubles": []},
    ]
    assert only == engines[:1]


async def test_a_measurement_is_kept_for_the_profile_of_its_replica_and_replaced(fleet, control):
    async with asking(control) as client:
        for concurrency in (12, 16):
            told = {
                "replica_id": "big-1a2b3c4d",
                "result": {**RESULT, "concurrency": concurrency},
                "slo": SLO,
            }
            assert (await client.put("/capacity", json=told)).status_code == 200
        (kept,) = (await client.get("/capacity")).json()["capacities"]
        none = (await client.get("/capacity", params={"model": "small"})).json()["capacities"]
    assert (kept["model"], kept["profile"]) == ("big", "gpu")
    assert kept["result"]["concurrency"] == 16
    assert kept["slo"] == SLO
    assert none == []


async def test_what_is_no_replica_has_no_capacity(fleet, control):
    async with asking(control) as client:
        told = {"replica_id": "gone-00000000", "result": RESULT, "slo": SLO}
        answer = await client.put("/capacity", json=told)
    assert answer.status_code == 404
    assert "no replica 'gone-00000000' runs" in answer.json()["error"]["message"]


async def test_without_a_store_measurements_are_refused_with_the_way_out(fleet, control):
    unkept = dataclasses.replace(control, measurements=Measured(None, clock=SystemClock()))
    async with asking(unkept) as client:
        answer = await client.get("/capacity")
    assert answer.status_code == 501
    assert answer.json()["error"]["code"] == "no_store"
    assert "set auth.store" in answer.json()["error"]["message"]


async def test_the_brake_is_shown_and_lifted_once(fleet, control):
    brake = BrakeView(since_s=30.0, ends_in_s=570.0, node_ids=("n1", "n2", "n3"))
    fleet.control = dataclasses.replace(fleet.control, brake=brake)
    async with asking(control) as client:
        shown = (await client.get("/brake")).json()["brake"]
        lifted = [(await client.post("/brake/lift")).json() for _ in range(2)]
        after = (await client.get("/brake")).json()
    assert shown["node_ids"] == ["n1", "n2", "n3"]
    assert lifted == [{"was_on": True}, {"was_on": False}]
    assert after == {"brake": None}


async def test_decisions_are_those_of_the_last_passes(fleet, control):
    async with asking(control) as client:
        passes = (await client.get("/decisions")).json()["passes"]
        later = (await client.get("/decisions", params={"since": 2_000_000_000})).json()["passes"]
    assert passes[0]["actions"] == [
        {"kind": "Place", "subject": "big-1a2b3c4d", "reason": "fewer run than wanted"}
    ]
    assert later == []
