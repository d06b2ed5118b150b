"""A model is loaded when asked for, makes room for another one when idle, and stops when unused."""

from __future__ import annotations

import httpx
import pytest

from tests.fakes.deployment import until
from tests.fakes.engines import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

IDLE_S = 90


def model(name):
    profile = {"name": "cpu", "engine": "sim"}
    scaling = {"min": 0, "max": 1, "idle_timeout": IDLE_S}
    return {"name": name, "source": "sim", "scaling": scaling, "profiles": [profile]}


@pytest.fixture
def cramped(deployment):
    """One node with a port for one engine, and two models that nobody has asked for yet."""
    port = free_port()
    deployment.server(
        models=[model("first"), model("second")],
        agent_tls="insecure",
        control={
            "interval": 1,
            "expect_nodes": ["node1"],
            "port_range": [port, port],
            "min_residency_s": 4,
        },
    )
    deployment.agent(1)
    until(lambda: len(deployment.show("nodes")["nodes"]) == 1, "the node is there")
    until(lambda: deployment.show("status")["control"]["settling_left_s"] is None, "settled")
    return deployment


def code(deployment, name):
    body = {"model": name, "messages": [{"role": "user", "content": "hi"}]}
    return httpx.post(f"{deployment.url}/v1/chat/completions", json=body, timeout=60).status_code


def running(deployment):
    return [replica["model"] for replica in deployment.show("replicas")["replicas"]]


def status(deployment, name):
    return next(m["status"] for m in deployment.show("models")["models"] if m["name"] == name)


def test_an_idle_model_makes_room_for_another_and_that_one_stops_when_nobody_uses_it(cramped):
    assert code(cramped, "first") == 200
    assert running(cramped) == ["first"]
    assert code(cramped, "second") == 503, "it is young and was used just now"
    assert running(cramped) == ["first"]

    until(lambda: code(cramped, "second") == 200, "the idle one makes room", within_s=120)
    assert running(cramped) == ["second"]
    assert len(cramped.engines()) == 1
    assert "replica_evicted" in cramped.parts["server"].output
    assert status(cramped, "first") == "on_demand"

    until(lambda: not running(cramped), "nobody uses it", within_s=2 * IDLE_S)
    until(lambda: not cramped.engines(), "its engine has ended")
    assert "nobody has used it for" in cramped.parts["server"].output
    assert status(cramped, "second") == "on_demand"
    assert code(cramped, "first") == 200
