"""Models that are loaded when somebody asks for them, from the client's request to the engine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fakes.deployment import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

CLIENTS = 50


def model(name, *, args=(), most=1):
    profile = {"name": "cpu", "engine": "sim", "args": list(args)}
    scaling = {"min": 0, "max": most}
    return {"name": name, "source": "sim", "scaling": scaling, "profiles": [profile]}


@pytest.fixture
def on_demand(deployment):
    """Two workers, one node, and three models of which none runs."""
    places = deployment.places()
    deployment.server(
        models=[
            model("wanted", args=["--load-s", "2"]),
            model("broken", args=["--fail-start"]),
            model("off", most=0),
        ],
        agent_tls="insecure",
        gateway={**places["gateway"], "workers": 2},
        control={"interval": 1, "base_backoff": 60, "expect_nodes": ["node1"]},
    )
    deployment.agent(1)
    until(lambda: len(deployment.show("nodes")["nodes"]) == 1, "the node is there")
    until(lambda: deployment.show("status")["control"]["settling_left_s"] is None, "settled")
    return deployment


def asked(deployment, name):
    body = {"model": name, "messages": [{"role": "user", "content": "hi"}]}
    return httpx.post(f"{deployment.url}/v1/chat/completions", json=body, timeout=60)


def shown(deployment, name):
    return next(m for m in deployment.show("models")["models"] if m["name"] == name)


def replicas_of(deployment, name):
    return [r for r in deployment.show("replicas")["replicas"] if r["model"] == name]


def test_fifty_requests_at_two_workers_load_a_model_once_and_it_stays(on_demand):
    assert shown(on_demand, "wanted")["status"] == "on_demand"
    assert "on_demand" in on_demand.ctl("models").stdout
    listed = httpx.get(f"{on_demand.url}/v1/models").json()["data"]
    assert "wanted" in {entry["id"] for entry in listed}, "asking is what loads it"

    with ThreadPoolExecutor(CLIENTS) as crowd:
        answers = [crowd.submit(asked, on_demand, "wanted") for _ in range(CLIENTS)]
        until(lambda: replicas_of(on_demand, "wanted"), "it is placed")
        codes = {one.result().status_code for one in answers}
    assert codes == {200}
    [loaded] = replicas_of(on_demand, "wanted")
    assert len(on_demand.engines()) == 1

    until(lambda: shown(on_demand, "wanted")["is_asked"], "it is in use")
    until(lambda: replicas_of(on_demand, "wanted")[0]["inflight"] == 0, "nothing is under way")
    assert replicas_of(on_demand, "wanted")[0]["idle_s"] is not None
    server = on_demand.parts["server"]
    server.kill()
    server.start()
    on_demand.wait_ready("wanted", 1)
    assert asked(on_demand, "wanted").status_code == 200
    assert [r["replica_id"] for r in replicas_of(on_demand, "wanted")] == [loaded["replica_id"]]


def test_a_load_that_fails_is_told_with_its_cause_and_a_model_that_is_off_is_not_loaded(
    on_demand,
):
    answer = asked(on_demand, "broken")
    assert answer.status_code == 503
    error = answer.json()["error"]
    assert error["code"] == "load_failed"
    assert "does not start: " in error["message"]
    assert int(answer.headers["retry-after"]) > 0
    assert shown(on_demand, "broken")["status"] == "backoff"

    off = asked(on_demand, "off")
    assert (off.status_code, off.json()["error"]["code"]) == (503, "no_endpoints")
    typo = asked(on_demand, "wnated")
    assert (typo.status_code, typo.json()["error"]["code"]) == (404, "model_not_found")
    assert replicas_of(on_demand, "off") == []
    assert shown(on_demand, "off")["status"] == "off"
