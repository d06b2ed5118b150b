"""The admin API over a real socket: what is shown, what is refused, and in which shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import httpx
import pytest
from pydantic import TypeAdapter

from llmgw.api.application import create_app
from llmgw.api.routers import metrics
from llmgw.domain.placement_views import PlacementView
from llmgw.domain.status_views import StatusView
from llmgw.domain.views import ModelView, NodeView, RefusalView, ReplicaView
from tests.fakes.fleet import NOWHERE, FakeFleet, FakeReadiness, FakeRefusals, control_of
from tests.fakes.listening import listening


class BrokenFleet(FakeFleet):
    def status(self) -> StatusView:
        raise RuntimeError("secret of the house")


@pytest.fixture(scope="module")
def fleet() -> FakeFleet:
    return FakeFleet()


@pytest.fixture(scope="module")
def http(fleet: FakeFleet) -> Iterator[httpx.Client]:
    control = control_of(fleet)
    app = create_app(readiness=FakeReadiness(), control=control)
    with listening(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def router_only() -> Iterator[httpx.Client]:
    app = create_app(readiness=FakeReadiness(missing=("no endpoint answers yet",)))
    with listening(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "key", "shape", "views"),
    [
        pytest.param("nodes", "nodes", tuple[NodeView, ...], "node_views", id="nodes"),
        pytest.param("models", "models", tuple[ModelView, ...], "model_views", id="models"),
        pytest.param(
            "replicas", "replicas", tuple[ReplicaView, ...], "replica_views", id="replicas"
        ),
    ],
)
def test_lists_carry_every_fact_of_their_views(http, fleet, path, key, shape, views):
    rows = http.get(f"/api/v1/{path}").json()[key]
    assert TypeAdapter(shape).validate_python(rows) == tuple(getattr(fleet, views))


def test_status_carries_every_fact_of_its_view(http, fleet):
    page = http.get("/api/v1/status").json()
    assert TypeAdapter(StatusView).validate_python(page) == fleet.status()


def test_explanation_carries_every_fact_and_the_verdict(http):
    answer = http.get("/api/v1/models/huge/placement").json()
    assert TypeAdapter(PlacementView).validate_python(answer) == NOWHERE
    assert answer["is_unplaced"] is True
    assert answer["is_satisfied"] is False


def test_unknown_figures_are_null_and_never_zero(http):
    node = http.get("/api/v1/nodes/cpu01").json()
    assert node["memory_total_mb"] is None
    assert node["memory_available_mb"] is None
    assert node["engine_versions"] is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("state=ready", ["gpu01"], id="state"),
        pytest.param("label=rack=a", ["gpu01"], id="label"),
        pytest.param("label=rack=b", [], id="label with another value"),
        pytest.param("fabric=ib-a", ["gpu01"], id="fabric"),
        pytest.param("gpu_class=h100-80g", ["gpu01"], id="gpu class"),
        pytest.param("engine=vllm", ["gpu01"], id="engine"),
        pytest.param("engine=llamacpp", [], id="engine that no node has"),
        pytest.param("", ["cpu01", "gpu01"], id="none"),
    ],
)
def test_filters_narrow_the_nodes(http, query, found):
    answer = http.get(f"/api/v1/nodes?{query}").json()
    assert [n["node_id"] for n in answer["nodes"]] == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("model=small", ["small-5e6f7a8b"], id="model"),
        pytest.param("model=large", ["big-1a2b3c4d"], id="alias of a model"),
        pytest.param("model=huge", [], id="model of which nothing runs"),
        pytest.param("node=gpu01", ["big-1a2b3c4d"], id="node"),
        pytest.param("state=ready", ["big-1a2b3c4d"], id="state"),
    ],
)
def test_filters_narrow_the_replicas(http, query, found):
    answer = http.get(f"/api/v1/replicas?{query}").json()
    assert [r["replica_id"] for r in answer["replicas"]] == found


def test_replicas_of_a_removed_model_are_found_until_they_have_ended(http, fleet):
    fleet.model_views = [view for view in fleet.model_views if view.name != "small"]
    answer = http.get("/api/v1/replicas?model=small").json()
    assert [r["replica_id"] for r in answer["replicas"]] == ["small-5e6f7a8b"]


def test_filter_narrows_the_models(http):
    answer = http.get("/api/v1/models?status=unplaced").json()
    assert [m["name"] for m in answer["models"]] == ["huge"]


def test_model_is_found_by_its_alias(http):
    assert http.get("/api/v1/models/large").json()["name"] == "big"


def test_one_replica_is_shown(http):
    answer = http.get("/api/v1/replicas/small-5e6f7a8b").json()
    assert answer["shards"][0]["fetch"]["done_bytes"] == 3 * 1024**3


def test_log_of_a_connected_node_is_shown(http):
    answer = http.get("/api/v1/nodes/gpu01/logs?lines=1").json()
    assert answer == {
        "lines": ["three"],
        "sources": ["agent", "big-1a2b3c4d.0"],
    }


@pytest.mark.parametrize(
    ("path", "status", "code", "kind"),
    [
        pytest.param("models/none", 404, "unknown", "unknown", id="model"),
        pytest.param("models/none/placement", 404, "unknown", "unknown", id="placement"),
        pytest.param("nodes/none", 404, "unknown", "unknown", id="node"),
        pytest.param("replicas/none", 404, "unknown", "unknown", id="replica"),
        pytest.param("replicas?model=none", 404, "unknown", "unknown", id="model of replicas"),
        pytest.param("nodes/none/logs", 404, "unknown", "unknown", id="log of a node"),
        pytest.param("nodes/gpu01/logs?source=x", 404, "unknown", "unknown", id="log"),
        pytest.param("nodes/cpu01/logs", 503, "not_connected", "unavailable", id="no stream"),
        pytest.param("nothing", 404, "no_such_route", "unknown", id="route"),
        pytest.param("nodes?state=raedy", 400, "invalid", "invalid", id="filter"),
        pytest.param("nodes?label=rack", 400, "invalid", "invalid", id="label"),
        pytest.param("nodes/gpu01/logs?lines=0", 400, "invalid", "invalid", id="lines"),
    ],
)
def test_every_refusal_has_the_one_shape(http, path, status, code, kind):
    answer = http.get(f"/api/v1/{path}", headers={"x-request-id": "mine-1"})
    assert answer.status_code == status
    error = answer.json()["error"]
    assert (error["code"], error["kind"]) == (code, kind)
    assert error["request_id"] == answer.headers["x-request-id"] == "mine-1"


def test_retry_after_is_given_where_asking_again_may_help(http):
    assert http.get("/api/v1/nodes/cpu01/logs").headers["retry-after"] == "5"
    assert "retry-after" not in http.get("/api/v1/nodes/none").headers


def test_mistake_in_a_query_names_the_key_and_what_is_legal(http):
    [detail] = http.get("/api/v1/nodes?state=raedy").json()["error"]["details"]
    assert detail["path"] == "query.state"
    assert "'ready'" in detail["problem"]


def test_wrong_method_is_refused_in_the_one_shape(http):
    answer = http.post("/api/v1/nodes")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"
    assert answer.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("sent", ["has space", "x" * 200])
def test_illegal_request_id_is_replaced(http, sent):
    answer = http.get("/health", headers={"x-request-id": sent})
    assert answer.headers["x-request-id"].startswith("req-")


def test_fault_of_ours_tells_the_client_nothing_but_its_request_id(capfd):
    control = control_of(BrokenFleet())
    app = create_app(readiness=FakeReadiness(), control=control)
    with listening(app) as url:
        answer = httpx.get(f"{url}/api/v1/status", trust_env=False)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"]


def test_probes_answer_without_a_control_plane(router_only):
    assert router_only.get("/health").json() == {"status": "ok"}
    answer = router_only.get("/ready")
    assert answer.status_code == 503
    assert answer.json() == {"is_ready": False, "obstacles": ["no endpoint answers yet"]}


def test_load_balancer_may_ask_without_a_body(http, router_only):
    assert http.head("/health").status_code == 200
    assert router_only.head("/ready").status_code == 503


def test_ready_is_200_when_nothing_is_missing(http):
    assert http.get("/ready").json() == {"is_ready": True, "obstacles": []}


@pytest.mark.parametrize("path", ["status", "models/x/placement", "anything/at/all"])
def test_router_says_that_it_has_no_control_plane(router_only, path):
    answer = router_only.get(f"/api/v1/{path}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "no_control_plane"


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_router_says_so_to_orders_too(router_only, method):
    answer = router_only.request(method, "/api/v1/nodes/gpu01/state")
    assert answer.json()["error"]["code"] == "no_control_plane"


@pytest.fixture
def same_fleet_after(fleet):
    before = fleet.node_views
    yield
    fleet.node_views = before


@pytest.mark.usefixtures("same_fleet_after")
@pytest.mark.parametrize("target", ["cordoned", "draining", "ready"])
def test_an_operators_word_on_a_node_is_answered_by_the_node(http, target):
    wanted = {"target": target, "reason": "new cards"}
    answer = http.post("/api/v1/nodes/gpu01/state", json=wanted)
    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["flag_reason"]) == (target, "new cards")
    assert answer.json()["target"] == target
    assert http.get("/api/v1/nodes/gpu01").json() == answer.json()


@pytest.mark.parametrize(
    "body",
    [{}, {"target": "gone"}, {"target": "ready", "x": 1}, {"target": "ready", "reason": "x" * 257}],
    ids=["nothing", "no such state", "unknown key", "long reason"],
)
def test_an_operators_word_that_makes_no_sense_is_400(http, body):
    answer = http.post("/api/v1/nodes/gpu01/state", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["details"]


@pytest.mark.usefixtures("same_fleet_after")
def test_a_node_is_banned_and_let_in_again(http):
    for is_banned in (True, False):
        answer = http.post("/api/v1/nodes/gpu01/ban", json={"is_banned": is_banned})
        assert (answer.status_code, answer.json()["is_banned"]) == (200, is_banned)
        assert http.get("/api/v1/nodes/gpu01").json() == answer.json()
    assert http.post("/api/v1/nodes/nosuch/ban", json={"is_banned": True}).status_code == 404
    assert http.post("/api/v1/nodes/gpu01/ban", json={}).status_code == 400


@pytest.mark.usefixtures("same_fleet_after")
def test_a_node_that_is_gone_is_forgotten_and_one_that_is_there_is_not(http):
    assert http.delete("/api/v1/nodes/gpu01").status_code == 409
    answer = http.delete("/api/v1/nodes/cpu01")
    assert (answer.status_code, answer.content) == (204, b"")
    assert http.delete("/api/v1/nodes/cpu01").status_code == 404
    assert [node["node_id"] for node in http.get("/api/v1/nodes").json()["nodes"]] == ["gpu01"]


def test_a_node_that_never_registered_cannot_be_flagged(http):
    answer = http.post("/api/v1/nodes/nobody/state", json={"target": "cordoned"})
    assert answer.status_code == 404
    assert "'nobody' has ever registered" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("query", "nodes"),
    [
        ({}, ["node03", "node04"]),
        ({"node": "node03"}, ["node03"]),
        ({"node": "node02"}, ["node03"]),
        ({"node": "node01"}, []),
    ],
    ids=["all", "by its word", "by its certificate", "nobody"],
)
def test_refusals_are_found_by_either_name(http, query, nodes):
    found = http.get("/api/v1/refusals", params=query).json()["refusals"]
    assert [r["node_id"] for r in found] == nodes


def test_refusals_carry_every_fact_of_their_views(http):
    rows = http.get("/api/v1/refusals").json()["refusals"]
    assert TypeAdapter(tuple[RefusalView, ...]).validate_python(rows) == FakeRefusals().views


def test_description_of_the_api_documents_every_route_and_loads_nothing_foreign(http):
    described = http.get("/api/v1/openapi.json").json()
    routes = [route for path in described["paths"].values() for route in path.values()]
    assert len(routes) >= 23
    assert all(route["description"] for route in routes)
    assert "ErrorOut" in described["components"]["schemas"]
    assert http.get("/docs").status_code == 404


def test_change_of_the_fleet_is_seen_by_the_next_question(http, fleet):
    before = fleet.node_views
    fleet.node_views = [dataclasses.replace(n, state="cordoned") for n in before]
    try:
        answer = http.get("/api/v1/nodes").json()
    finally:
        fleet.node_views = before
    assert {n["state"] for n in answer["nodes"]} == {"cordoned"}


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"host": "evil.example:9090"}, id="a name that was made to point here"),
        pytest.param({"origin": "http://evil.example"}, id="a page from elsewhere"),
        pytest.param({"origin": "null"}, id="a page without an origin"),
        pytest.param({"host": "[::bad"}, id="a host that is none"),
    ],
)
def test_a_foreign_page_is_kept_out(http, headers):
    answer = http.get("/api/v1/status", headers=headers)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "denied"
    assert answer.json()["error"]["request_id"]


@pytest.mark.parametrize("host", ["localhost:9090", "[::1]:9090", "10.1.2.3", "LOCALHOST"])
def test_who_asks_by_address_or_as_localhost_is_let_in(http, host):
    assert http.get("/api/v1/status", headers={"host": host}).status_code == 200


class Shown:
    """Fits ``api.ports.MetricsPage``."""

    async def metrics_page(self):
        return "llmgw_requests_inflight 3\n"


def test_the_admin_port_shows_metrics_beside_the_api():
    app = create_app(readiness=FakeReadiness(), figures=Shown())
    with listening(app) as url:
        answer = httpx.get(f"{url}/metrics", trust_env=False)
    assert (answer.status_code, answer.text) == (200, "llmgw_requests_inflight 3\n")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_the_metrics_port_answers_404_on_every_path_but_metrics():
    others = ("", "/health", "/ready", "/api/v1/status", "/docs", "/openapi.json", "/metrics/x")
    with listening(metrics.create_app(Shown())) as url:
        seen = [httpx.get(f"{url}{path}", trust_env=False).status_code for path in others]
        assert httpx.get(f"{url}/metrics", trust_env=False).text == "llmgw_requests_inflight 3\n"
    assert set(seen) == {404}
