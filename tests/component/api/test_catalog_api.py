"""The catalog through the admin API: what is refused, what is told, and what is audited."""

from __future__ import annotations

import dataclasses
import json

import httpx
import pytest
import yaml

from llmgw.api.application import create_app
from llmgw.domain.catalog import Model
from llmgw.domain.status_views import LeadView
from llmgw.errors import Unreachable
from tests.fakes.fleet import FakeFleet, FakeReadiness, catalogs_of, control_of
from tests.fakes.listening import listening
from tests.fakes.stored_models import StoredModelsInMemory, row, written

BIG = Model("big", "org/big")
SECRET = written(
    "secret",
    source="http://ann:hunter2@127.0.0.1:1/m.gguf?token=hunter2",
    profiles=[
        {"name": "p", "engine": "sim", "env": {"T": "hunter2"}, "args": ["--key=hunter2", "-v"]}
    ],
)


@pytest.fixture(scope="module")
def served():
    control = dataclasses.replace(control_of(FakeFleet()))
    app = create_app(readiness=FakeReadiness(), control=control)
    with listening(app) as url, httpx.Client(base_url=f"{url}/api/v1") as client:
        yield app, control, client


@pytest.fixture
def stored():
    return StoredModelsInMemory(row("small"))


@pytest.fixture
def http(served, stored):
    """The one server, with a catalog of this test alone."""
    app, control, client = served
    control.audit.kept.clear()
    app.state.control = dataclasses.replace(control, catalogs=catalogs_of((BIG,), stored))
    return client


@pytest.fixture
def acts(served):
    return served[1].audit.kept


def add(http, definition, **options):
    body = {"definition": definition, "check_source": False, **options}
    return http.post("/models", json=body)


def as_settings(definition):
    return yaml.safe_dump({"models": [definition]})


@pytest.mark.parametrize(
    "how",
    [dict, json.dumps, yaml.safe_dump, as_settings],
    ids=["json", "json-text", "yaml", "settings"],
)
def test_a_definition_comes_as_json_or_as_text(http, stored, how):
    answer = add(http, how(written("new")))
    assert answer.status_code == 201, answer.text
    assert answer.json()["entry"]["definition"] == written("new")
    assert stored.rows["new"].definition == written("new")


def test_an_invalid_definition_is_a_400_that_changes_nothing(http, stored, acts):
    before = http.get("/catalog").json()
    answer = add(http, written("new", surce="x", profiles=[{"name": "p", "engine": "vlm"}]))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], {d["path"] for d in error["details"]}) == (
        "catalog_invalid",
        {"surce", "profiles[0].engine"},
    )
    assert stored.writes == 0
    assert http.get("/catalog").json() == before
    assert [(a.action, a.target, a.outcome) for a in acts] == [
        ("model.add", "new", "catalog_invalid")
    ]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/models/big", None),
        ("PATCH", "/models/big/scaling", {"min": 1}),
        ("PUT", "/models/big/fallbacks", {"fallbacks": []}),
        ("PATCH", "/models/big", {"description": "x"}),
    ],
    ids=["remove", "scale", "fallbacks", "describe"],
)
def test_a_declared_model_is_a_conflict_that_is_audited(http, stored, acts, method, path, body):
    answer = http.request(method, path, json=body)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "conflict")
    assert stored.writes == 0
    assert [(a.target, a.outcome) for a in acts] == [("big", "conflict")]


def test_without_a_store_it_is_not_implemented(http, served):
    app, control, _ = served
    app.state.control = dataclasses.replace(control, catalogs=catalogs_of((BIG,), None))
    answer = add(http, written("new"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (501, "no_store")


def test_a_store_that_is_away_is_told_with_a_hint_to_retry(http, stored):
    stored.error = Unreachable("the store does not answer")
    answer = add(http, written("new"))
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)


def test_a_standby_changes_nothing_and_names_the_leader(http, served, stored):
    lead = served[1].lead
    before, lead.view = lead.view, LeadView("standby", term=3, address="10.0.0.5:9090")
    answer = add(http, written("new"))
    lead.view = before
    assert (answer.status_code, answer.json()["error"]["leader"]) == (409, "10.0.0.5:9090")
    assert stored.writes == 0


def test_what_was_done_is_audited_without_secrets(http, acts):
    answer = add(http, SECRET)
    assert answer.status_code == 201, answer.text
    (act,) = acts
    assert (act.action, act.target, act.outcome) == ("model.add", "secret", "done")
    assert "hunter2" not in json.dumps([act.before, act.after])
    assert act.after["secret.profiles[p].args"] == ["--key", "-v"]
    assert act.after["source_check"] is False


def test_a_change_is_audited_with_what_it_was_before(http, acts):
    done = http.patch("/models/small/scaling", json={"min": 2})
    assert done.json()["entry"]["scaling"] == {"min": 2, "max": 2, "idle_timeout_s": 1800.0}
    (act,) = acts
    assert act.after["small.scaling.min"] == 2
    assert act.before == {"small": "change"}


def test_a_trial_is_told_and_neither_written_nor_audited(http, stored, acts):
    told = http.delete("/models/small?dry_run=1")
    assert (told.status_code, told.json()["changes"][0]["kind"]) == (202, "remove")
    assert (stored.writes, acts) == (0, [])


def test_a_dead_mirror_is_refused_before_anything_is_written(http, stored):
    asked = http.post("/models/check-source", json={"source": "http://127.0.0.1:1/m.gguf"})
    assert asked.json()["is_good"] is False
    answer = add(http, written("new", source="http://127.0.0.1:1/m.gguf"), check_source=True)
    (detail,) = answer.json()["error"]["details"]
    assert (answer.status_code, detail["path"]) == (400, "source")
    assert detail["problem"] == asked.json()["detail"]
    assert stored.writes == 0


def test_an_absent_description_is_null_and_an_unknown_model_is_told(http):
    entry = http.get("/models/small/definition").json()
    assert "description" not in entry["definition"]
    assert http.get("/models/nosuch/definition").status_code == 404


def test_the_whole_catalog_is_applied_in_one_step(http, stored):
    models = [e["definition"] for e in http.get("/catalog").json()["entries"]]
    same = http.put("/catalog", json={"models": models, "prune": True})
    assert (same.status_code, same.json()["changes"]) == (200, [])
    models.append(written("new"))
    body = {"models": yaml.safe_dump({"models": models}), "check_sources": False}
    assert [c["name"] for c in http.put("/catalog", json=body).json()["changes"]] == ["new"]
    assert stored.rows.keys() == {"small", "new"}
