"""The owner of a key sees its limits and what it used, and nobody else's."""

from __future__ import annotations

import httpx
import pytest
from starlette.applications import Starlette

from llmgw.api.own_usage import OwnUsage
from llmgw.domain.api_keys import ApiKey, KeyChain
from llmgw.domain.principals import Level
from llmgw.domain.usage_reports import Span
from llmgw.errors import Unknown, Unreachable
from tests.fakes.clock import FakeClock
from tests.fakes.usage import NOON, FakeUsageBooks

LEVELS = (
    Level("org", "o1", budget=1000, period="month"),
    Level("team", "t1"),
    Level("project", "p1", models=frozenset({"chat", "big"})),
    Level("key", "k1", rpm=60, budget=400, models=frozenset({"chat"})),
)


class Keys:
    """Fits ``own_usage.Chains``."""

    def __init__(self):
        self.error = None

    async def chain(self, key_id):
        if self.error is not None:
            raise self.error
        key = ApiKey(
            key_id=key_id,
            key_hash="",
            prefix="sk-ab",
            name="laptop",
            project_id="p1",
            user_id="ann",
            created_at=NOON,
            created_by="ann",
        )
        return KeyChain(key, team_id="t1", org_id="o1", levels=LEVELS)


class Sums(FakeUsageBooks):
    """Fits ``own_usage.Sums``."""

    async def spent_at(self, scope, scope_id, *, since):
        self.asked.append((scope, scope_id, since))
        return {"org": 990, "key": 500}[scope]


@pytest.fixture
def rooms():
    return {"chains": Keys(), "sums": Sums()}


@pytest.fixture
def ask(rooms):
    """Asks as the gateway does, for the owner of ``k1``."""
    app = Starlette(routes=OwnUsage(**rooms, clock=FakeClock(wall_s=NOON)).routes())

    async def asked(path, *, key="k1"):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://house") as http:
            return await http.get(path, headers={"x-llmgw-principal": key} if key else {})

    return asked


async def test_an_owner_sees_the_key_its_limits_and_what_is_left(ask, rooms):
    told = (await ask("/me")).json()
    assert (told["id"], told["name"], told["user"], told["org"]) == ("k1", "laptop", "ann", "o1")
    assert told["models"] == ["chat"]
    assert told["limits"] == [
        {
            "scope": "org",
            "id": "o1",
            "budget_micros": 1000,
            "period": "month",
            "spent_micros": 990,
            "budget_left_micros": 10,
        },
        {"scope": "project", "id": "p1", "models": ["big", "chat"]},
        {
            "scope": "key",
            "id": "k1",
            "rpm": 60,
            "models": ["chat"],
            "budget_micros": 400,
            "period": "lifetime",
            "spent_micros": 500,
            "budget_left_micros": 0,
        },
    ]
    assert told["budget_left_micros"] == 0
    november = NOON - 29.5 * 86400
    assert rooms["sums"].asked == [("org", "o1", november), ("key", "k1", 0.0)]


async def test_usage_is_that_of_the_key_alone(ask, rooms):
    told = (await ask("/v1/usage?by=day&since=2025-11-30T12:30&until=1764590400&key=k2")).json()
    (asked,) = rooms["sums"].asked
    assert asked == ("day", Span(NOON, NOON + 86400), "k1", 1000)
    assert (told["key"], told["by"], told["since"]) == ("k1", "day", NOON)
    assert told["data"][0]["cost_micros"] == 75
    assert told["data"][0]["day"] == "k1"


@pytest.mark.parametrize(
    "question",
    ["by=team", "by=", "since=yesterday", "since=-1", "until=inf", "until=nan", "since=1e99"],
)
async def test_a_question_that_cannot_be_answered_is_the_askers_mistake(ask, rooms, question):
    refused = await ask(f"/v1/usage?{question}")
    assert refused.status_code == 400
    assert refused.json()["error"]["type"] == "invalid_request_error"
    assert rooms["sums"].asked == []


@pytest.mark.parametrize("path", ["/me", "/v1/usage"])
async def test_without_a_key_nothing_is_told(ask, path):
    refused = await ask(path, key="")
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "invalid_api_key"


async def test_a_store_that_is_away_is_said_without_its_address(ask, rooms):
    rooms["chains"].error = Unreachable("the store postgresql://llmgw@db/x does not answer")
    refused = await ask("/me")
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "5"
    assert "postgresql" not in refused.text


async def test_a_fault_of_our_own_tells_nothing_of_the_house(ask, rooms):
    rooms["chains"].error = Unknown("no key k1 in the store of secrets")
    refused = await ask("/me")
    assert refused.status_code == 500
    assert "secrets" not in refused.text
