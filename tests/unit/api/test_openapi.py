"""The description of the admin API says of each route what it does, answers and may refuse."""

from __future__ import annotations

import pytest

from llmgw.api.application import create_app
from tests.fakes.fleet import FakeFleet, FakeReadiness, control_of

FILES = {
    "GET /api/v1/support-bundle": "application/gzip",
    "GET /api/v1/usage/requests.csv": "text/csv",
    "GET /metrics": "text/plain",
}
"""What is no JSON document."""
REFUSAL = {"$ref": "#/components/schemas/ErrorOut"}


class FakeFigures:
    async def metrics_page(self) -> str:
        return ""


@pytest.fixture(scope="module")
def document():
    app = create_app(
        readiness=FakeReadiness(), control=control_of(FakeFleet()), figures=FakeFigures()
    )
    return app.openapi()


@pytest.fixture(scope="module")
def routes(document):
    found = {
        f"{verb.upper()} {path}": route
        for path, verbs in document["paths"].items()
        for verb, route in verbs.items()
    }
    assert len(found) > 40
    return found


def without(routes, holds):
    return [name for name, route in routes.items() if not holds(name, route)]


def test_a_route_says_what_it_does(routes):
    def is_said(_name, route):
        words = route["description"].split()
        return route["summary"] and len(words) > 1 and words[-1].endswith(".")

    assert without(routes, is_said) == []


def test_a_route_says_what_it_answers(routes):
    def is_said(name, route):
        good = {code: a for code, a in route["responses"].items() if code.startswith("2")}
        if name in FILES:
            return [*good["200"]["content"]] == [FILES[name]]
        return good and all(
            code == "204" or "$ref" in str(answer["content"]["application/json"]["schema"])
            for code, answer in good.items()
        )

    assert without(routes, is_said) == []


def test_a_route_says_how_it_refuses_in_the_one_shape(routes):
    def is_said(_name, route):
        answers = route["responses"]
        shapes = [answers[code]["content"]["application/json"]["schema"] for code in ("4XX", "5XX")]
        return shapes == [REFUSAL, REFUSAL] and "422" not in answers

    assert without(routes, is_said) == []


def test_a_route_stands_in_a_section_that_is_described_and_each_section_has_some(document, routes):
    about = {section["name"]: section["description"] for section in document["tags"]}
    assert without(routes, lambda _, route: route["tags"] and {*route["tags"]} <= {*about}) == []
    assert {tag for route in routes.values() for tag in route["tags"]} == {*about}
    assert all(about.values())


def test_a_body_that_is_taken_is_described(routes):
    def is_said(_name, route):
        return "requestBody" not in route or "$ref" in str(route["requestBody"]["content"])

    assert without(routes, is_said) == []


def test_every_shape_says_what_it_is(document):
    shapes = document["components"]["schemas"]
    assert [name for name, shape in shapes.items() if not shape.get("description")] == []
