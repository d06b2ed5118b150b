"""Plans, questions and support bundles through the admin API."""

from __future__ import annotations

import dataclasses

import httpx
import pytest

from llmgw.api.application import create_app
from llmgw.domain.questions import Supposed
from tests.fakes.fleet import OUTLOOK, PLAN, FakeFleet, FakePlans, FakeReadiness, control_of
from tests.fakes.listening import listening


@pytest.fixture
def plans():
    return FakePlans()


@pytest.fixture
def http(plans):
    control = dataclasses.replace(control_of(FakeFleet()), plans=plans)
    with (
        listening(create_app(readiness=FakeReadiness(), control=control)) as url,
        httpx.Client(base_url=f"{url}/api/v1") as client,
    ):
        yield client


def as_json(view):
    return {key: listed(value) for key, value in dataclasses.asdict(view).items()}


def listed(value):
    if isinstance(value, (list, tuple)):
        return [listed(one) for one in value]
    return {k: listed(v) for k, v in value.items()} if isinstance(value, dict) else value


def test_a_plan_carries_every_fact_of_its_view(http):
    assert http.get("/plan").json() == as_json(PLAN)


def test_an_outlook_carries_every_fact_and_the_verdict(http):
    told = http.post("/plan/what-if", json={"supposed": "drain", "name": "gpu01"}).json()
    assert told == {**as_json(OUTLOOK), "is_enough": True}
    told = http.post("/plan/what-if", json={"supposed": "lose", "name": "gpu01"}).json()
    assert told["is_enough"] is False


def test_a_definition_is_read_as_in_the_settings(http, plans):
    written = {
        "name": "new",
        "source": "/w/new.gguf",
        "scaling": {"min": 2},
        "profiles": [{"name": "cpu", "engine": "sim"}],
    }
    done = http.post("/plan/what-if", json={"supposed": "add", "definition": written})
    assert done.status_code == 200, done.text
    (question,) = plans.asked
    assert question.supposed is Supposed.ADD
    assert (question.definition.name, question.definition.scaling.max) == ("new", 2)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"supposed": "drain"}, 400, "which node or model"),
        ({"supposed": "explode", "name": "n"}, 400, "supposed"),
        ({"supposed": "drain", "definition": {"name": "x"}}, 400, "add alone"),
        ({"supposed": "add", "definition": {"nam": "x"}}, 400, "models[0].nam"),
        ({"supposed": "drain", "name": "nosuch"}, 404, "nosuch"),
    ],
    ids=["nothing named", "no such question", "wrong question", "misspelt", "unknown node"],
)
def test_a_question_that_makes_no_sense_says_what_does(http, body, status, words):
    done = http.post("/plan/what-if", json=body)
    assert done.status_code == status
    assert words in done.text


def test_a_support_bundle_is_a_file(http):
    done = http.get("/support-bundle", params={"passes": 7})
    assert done.headers["content-type"] == "application/gzip"
    assert done.content == b"bundle of 7"
