"""What the gateway answers itself: models, readiness, health, the landing page."""

from __future__ import annotations

import pytest

from llmgw.domain.routes import EndpointState, ModelState
from tests.fakes.clock import FakeClock
from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import get
from tests.fakes.upstream import Do, whole


async def fetch(stage, path, *fields):
    return await (await stage.send(get(path, *fields))).answer()


async def listed(stage):
    return [entry["id"] for entry in (await fetch(stage, "/v1/models")).json["data"]]


async def test_models_are_listed_that_can_serve_now_in_the_order_of_their_names(stage):
    await stage.engine("e1", models=("zeta", "alpha"))
    for name in ("zeta", "alpha"):
        stage.list_model(name)
    stage.list_model("waiting", state=ModelState.NOT_PLACED)
    stage.list_model("loading", state=ModelState.LOADING)
    stage.list_model("asleep", state=ModelState.ON_DEMAND)
    answer = await fetch(stage, "/v1/models")
    assert answer["content-type"] == "application/json"
    assert answer.json["object"] == "list"
    states = {entry["id"]: entry["llmgw"]["state"] for entry in answer.json["data"]}
    assert states == {
        "alpha": "ready",
        "asleep": "on_demand",
        "loading": "loading",
        "zeta": "ready",
    }
    assert list(states) == sorted(states)


async def test_model_whose_endpoints_are_gone_is_no_longer_listed(stage):
    await stage.engine()
    assert await listed(stage) == ["m"]
    stage.change_endpoint("e1", state=EndpointState.DRAINING)
    assert await listed(stage) == []
    stage.change_endpoint("e1", state=EndpointState.READY)
    assert await listed(stage) == ["m"]
    stage.drop_endpoint("e1")
    assert await listed(stage) == []


async def test_unknown_facts_of_a_model_have_no_key(stage):
    await stage.engine()
    [entry] = (await fetch(stage, "/v1/models")).json["data"]
    assert entry.keys() == {"id", "object", "created", "owned_by", "llmgw"}
    assert entry["owned_by"] == "llmgw"


async def test_known_facts_of_a_model_are_told(stage):
    await stage.engine(models=("org/m",))
    stage.list_model(
        "org/m",
        aliases=("a", "b"),
        created_at=7,
        owned_by="llmgw-sim",
        context_length=4096,
        capabilities=("tools",),
        description="A model.",
    )
    for path in ("/v1/models/org/m", "/v1/models/a"):
        assert (await fetch(stage, path)).json == {
            "id": "org/m",
            "object": "model",
            "created": 7,
            "owned_by": "llmgw-sim",
            "aliases": ["a", "b"],
            "description": "A model.",
            "context_length": 4096,
            "max_model_len": 4096,
            "capabilities": ["tools"],
            "llmgw": {"state": "ready"},
        }


@pytest.mark.parametrize("name", ["typo", "m/", "", "%ff", "m%20"])
async def test_single_model_that_is_not_there_is_a_404(stage, name):
    await stage.engine()
    answer = await fetch(stage, f"/v1/models/{name}")
    assert (answer.status, answer.code) == (404, "model_not_found")


async def test_list_is_empty_before_any_table_has_a_model(stage):
    stage.models.clear()
    stage.publish()
    assert (await fetch(stage, "/v1/models")).json == {"object": "list", "data": []}


# Readiness


async def readiness(stage):
    answer = await fetch(stage, "/ready")
    return answer.status, answer.json["reasons"]


async def test_ready_means_that_a_request_could_go_somewhere(stage):
    assert await readiness(stage) == (503, ["no endpoint is ready"])
    await stage.engine()
    assert await readiness(stage) == (200, [])
    stage.change_endpoint("e1", state=EndpointState.DRAINING)
    assert await readiness(stage) == (503, ["no endpoint is ready"])
    stage.list_model("asleep", state=ModelState.ON_DEMAND)
    assert await readiness(stage) == (200, [])


async def test_gateway_without_a_table_is_not_ready_and_healthy(stage):
    stage.routes = type(stage.routes)()
    assert await readiness(stage) == (503, ["no route table yet"])
    assert (await fetch(stage, "/health")).json == {"status": "ok"}


async def test_gateway_whose_every_endpoint_failed_is_not_ready_until_one_may_be_probed(stage):
    stage.clock = clock = FakeClock()
    stage.tune(dispatch={"max_attempts": 1}, breaker={"failure_threshold": 1, "open_s": 5})
    engine = await stage.engine()
    engine.once(Do.CLOSE)
    await stage.ask()
    assert await readiness(stage) == (503, ["no endpoint is ready"])
    assert (await fetch(stage, "/health")).status == 200
    clock.advance(5.1)
    assert await readiness(stage) == (200, [])


async def test_readiness_tells_the_age_of_the_table_and_an_old_one_is_good_enough(stage):
    stage.clock = clock = FakeClock()
    await stage.engine()
    await stage.start()
    clock.advance(50)
    answer = await fetch(stage, "/ready")
    assert answer.json == {"ready": True, "reasons": [], "table_age_s": 50}
    stage.publish()
    assert (await fetch(stage, "/ready")).json["table_age_s"] == 0


async def test_gateway_that_hears_of_nobody_for_an_hour_serves_and_is_ready(stage):
    """Control plane and store are gone: the last table is good enough."""
    stage.clock = clock = FakeClock()
    await stage.engine()
    assert (await stage.ask()).status == 200
    for _ in range(60):
        clock.advance(60)
    assert (await stage.ask()).status == 200
    answer = await fetch(stage, "/ready")
    assert (answer.status, answer.json["table_age_s"]) == (200, 3600)
    assert "m" in [entry["id"] for entry in (await fetch(stage, "/v1/models")).json["data"]]


# The landing page


async def test_landing_page_tells_the_address_and_no_model(stage):
    await stage.engine()
    answer = await fetch(stage, "/")
    assert answer["content-type"] == "text/html; charset=utf-8"
    assert b"http://gateway/v1" in answer.body
    for path in ("/", "/health", "/ready"):
        text = bytes((await fetch(stage, path)).body)
        assert b'"m"' not in text
        assert b"e1" not in text


async def test_landing_page_escapes_what_the_client_says(stage):
    client = await stage.send(b"GET / HTTP/1.1\r\nHost: <script>alert(1)</script>\r\n\r\n")
    answer = await client.answer()
    assert b"<script>" not in answer.body


async def test_own_routes_need_no_engine_and_count_no_model(stage):
    engine = await stage.engine(answer=whole())
    for path in ("/", "/health", "/ready", "/v1/models", "/v1/models/m", "/nothing"):
        await fetch(stage, path)
    assert engine.connections == 0
    assert {model for model, _ in stage.stats.totals.requests} == {"unknown"}
    await stage.ask({**ASK, "model": "also unknown to us"})
    assert {model for model, _ in stage.stats.totals.requests} == {"unknown"}


@pytest.mark.parametrize("path", ["/api/v1/status", "/api/v1/nodes", "/api/v1/openapi.json"])
async def test_the_admin_api_is_not_on_the_port_of_clients(stage, path):
    await stage.engine()
    answer = await fetch(stage, path)
    assert answer.status == 404
