"""Every write leaves an entry, done or refused; who does not lead takes none and says who does."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from llmgw.api import acting
from llmgw.api.application import create_app
from llmgw.domain.status_views import LeadView
from tests.fakes.fleet import FakeFleet, FakeReadiness, control_of
from tests.fakes.listening import listening

STANDBY = LeadView("standby", term=3, address="10.0.0.5:9090")


@pytest.fixture(scope="module")
def control():
    return control_of(FakeFleet())


@pytest.fixture(scope="module")
def app(control):
    return create_app(readiness=FakeReadiness(), control=control)


@pytest.fixture(scope="module")
def http(app) -> Iterator[httpx.Client]:
    with listening(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


@pytest.fixture
def acts(control):
    """The entries of this test."""
    control.audit.kept.clear()
    return control.audit.kept


@pytest.fixture
def standing(control):
    """Have the control plane stand somewhere else for a test."""
    before = control.lead.view

    def stand(view):
        control.lead.view = view

    yield stand
    control.lead.view = before


def writes(app):
    """Every route of the API that changes something, with words in place of its parameters."""
    document = app.openapi()
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            if path.startswith("/api/v1") and acting.is_write(
                method=method.upper(), openapi_extra=described
            ):
                yield method.upper(), path.replace("{", "").replace("}", "")


def told(entry):
    return (entry.action, entry.target, entry.outcome)


def test_an_operators_word_is_told_with_who_said_it_and_why(http, acts):
    body = {"target": "draining", "reason": "new fan"}
    headers = {"x-llmgw-actor": "ann", "x-llmgw-origin": "cli", "x-request-id": "req-7"}
    http.post("/api/v1/nodes/gpu01/state", json=body, headers=headers).raise_for_status()
    (entry,) = acts
    assert told(entry) == ("node.drain", "gpu01", "done")
    assert (entry.actor, entry.origin, entry.request_id) == ("ann", "cli", "req-7")
    assert entry.after == {"reason": "new fan"}
    assert entry.before == {"target": "ready", "reason": "", "actor": ""}


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "<script>"])
def test_who_says_no_name_is_unknown(http, acts, name):
    http.delete("/api/v1/nodes/nosuch", headers={"x-llmgw-actor": name, "x-llmgw-origin": "root"})
    assert [(one.actor, one.origin) for one in acts] == [("unknown", "api")]


def test_a_refused_write_is_told_with_the_code_of_its_refusal(http, acts):
    assert http.post("/api/v1/nodes/nobody/state", json={"target": "ready"}).status_code == 404
    assert http.post("/api/v1/nodes/gpu01/state", json={"target": "gone"}).status_code == 400
    assert http.delete("/api/v1/nodes/gpu01").status_code == 409
    assert [told(one) for one in acts] == [
        ("node.uncordon", "nobody", "unknown"),
        ("node.state", "gpu01", "invalid"),
        ("node.forget", "gpu01", "conflict"),
    ]


def test_questions_are_not_told(http, acts):
    http.get("/api/v1/nodes").raise_for_status()
    http.get("/api/v1/nodes/nosuch")
    question = {"supposed": "drain", "name": "gpu01"}
    http.post("/api/v1/plan/what-if", json=question).raise_for_status()
    http.post("/api/v1/nosuch/route")
    assert acts == []


def test_every_write_is_told_also_where_it_makes_no_sense(http, app, acts):
    asked = list(writes(app))
    assert len(asked) >= 4
    for method, path in asked:
        http.request(method, path)
    assert len(acts) == len(asked), [told(one) for one in acts]


def test_a_standby_takes_no_write_and_names_the_leader(http, app, acts, standing):
    standing(STANDBY)
    asked = list(writes(app))
    for method, path in asked:
        answer = http.request(method, path, json={"target": "cordoned"})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (409, "standby"), (method, path)
        assert error["leader"] == "10.0.0.5:9090"
        assert "ask the one that leads, at 10.0.0.5:9090" in error["message"]
    assert {one.outcome for one in acts} == {"standby"}
    assert len(acts) == len(asked)


def test_a_standby_answers_questions_and_says_that_it_is_one(http, standing):
    asked_of_the_leader = http.get("/api/v1/nodes")
    assert "x-llmgw-standing" not in asked_of_the_leader.headers
    standing(STANDBY)
    answer = http.get("/api/v1/nodes")
    assert answer.status_code == 200
    assert answer.headers["x-llmgw-standing"] == "standby"
    assert answer.headers["x-llmgw-leader"] == "10.0.0.5:9090"
    question = {"supposed": "drain", "name": "gpu01"}
    assert http.post("/api/v1/plan/what-if", json=question).status_code == 200


def test_where_no_leader_is_known_that_is_said(http, standing):
    standing(LeadView("standby"))
    answer = http.delete("/api/v1/nodes/gpu01")
    assert (answer.status_code, answer.json()["error"]["leader"]) == (409, "")
    assert "no leader is known yet" in answer.json()["error"]["message"]
    assert "x-llmgw-leader" not in answer.headers


def test_a_leader_whose_lease_ran_out_changes_nothing_and_says_why(http, standing):
    standing(LeadView("lapsed", term=3, address="10.0.0.4:9090"))
    answer = http.delete("/api/v1/nodes/gpu01")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert "retry-after" in answer.headers
    assert "until its store answers" in answer.json()["error"]["message"]


def test_who_leads_is_answered(http, standing):
    assert http.get("/api/v1/leader").json() == {
        "standing": "leads",
        "is_leader": True,
        "term": 7,
        "address": "",
    }
    standing(STANDBY)
    assert http.get("/api/v1/leader").json()["address"] == "10.0.0.5:9090"


def test_acts_are_read_by_page_and_by_what_they_are_about(http, acts):
    for number in range(5):
        http.delete(f"/api/v1/nodes/n{number}")
    page = http.get("/api/v1/audit", params={"limit": 2}).json()["entries"]
    assert [one["target"] for one in page] == ["n4", "n3"]
    rest = http.get("/api/v1/audit", params={"before_id": page[-1]["entry_id"]}).json()["entries"]
    assert [one["target"] for one in rest] == ["n2", "n1", "n0"]
    found = http.get("/api/v1/audit", params={"target": "n3"}).json()["entries"]
    assert [(one["action"], one["outcome"]) for one in found] == [("node.forget", "unknown")]
    assert http.get("/api/v1/audit", params={"limit": 1001}).status_code == 400
