"""Keys, places and limits through the admin API, on a real store."""

from __future__ import annotations

import dataclasses

import httpx
import pytest

from llmgw.accounts.sealing import Claiming
from llmgw.api.application import create_app
from llmgw.config.settings import ServerSettings
from llmgw.domain import people
from llmgw.serve import accounts
from tests.fakes.clock import FakeClock
from tests.fakes.fleet import FakeFleet, FakeReadiness, control_of


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def joined(planted, clock):
    return accounts.joined(planted, settings=ServerSettings(), clock=clock)


@pytest.fixture
def control(joined):
    return dataclasses.replace(control_of(FakeFleet()), keys=joined.keys, tree=joined.directory)


@pytest.fixture
async def api(control):
    app = create_app(readiness=FakeReadiness(), control=control)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v1") as client:
        yield client


@pytest.fixture
async def made(api):
    """A key of the first project."""
    answer = await api.post("/keys", json={"name": "ci", "project": "p1", "limits": {"rpm": 5}})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_what_opens_is_in_the_answer_that_made_it_and_nowhere_else(
    api, made, joined, control
):
    owner = await joined.directory.principal_of(people.digest(made["secret"]))
    assert owner.key_id == made["key"]["key_id"]
    shown = [await api.get("/keys"), await api.get(f"/keys/{owner.key_id}")]
    (told,) = control.audit.kept
    assert (told.action, told.target, told.outcome) == ("key.create", owner.key_id, "done")
    for text in (*(answer.text for answer in shown), repr(told)):
        assert made["secret"] not in text
        assert people.digest(made["secret"]) not in text
    assert [level["rpm"] for level in shown[1].json()["levels"]] == [None, None, None, 5]


async def test_a_sealed_key_is_told_as_the_token_of_its_link(api, planted, clock):
    sealed = (await api.post("/keys", json={"name": "x", "project": "p1", "claim_s": 60})).json()
    assert sealed["secret"] is None
    opened = await Claiming(planted.claims, clock=clock).open(sealed["claim_token"])
    assert opened.key_id == sealed["key"]["key_id"]


async def test_a_key_is_rotated_moved_and_revoked(api, made, joined):
    name = f"/keys/{made['key']['key_id']}"
    rotated = (await api.post(f"{name}/rotate", json={"overlap_s": 0})).json()
    assert rotated["secret"] != made["secret"]
    moved = (await api.post(f"{name}/move", json={"project": "acme/research/batch"})).json()
    assert moved["project_id"] == "p2"
    assert [key["key_id"] for key in (await api.get("/keys?project=p2")).json()["keys"]] == [
        made["key"]["key_id"]
    ]
    assert (await api.post(f"{name}/revoke")).json()["state"] == "revoked"
    refused = await api.post(f"{name}/rotate", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")


async def test_limits_are_set_one_by_one_and_taken_away_by_null(api, control):
    place = "/limits/team/t1"
    await api.patch(place, json={"rpm": 5, "models": ["b", "a"]})
    changed = (await api.patch(place, json={"rpm": None, "budget": 0, "period": "day"})).json()
    assert (changed["rpm"], changed["budget"], changed["models"]) == (None, 0, ["a", "b"])
    assert (await api.get(place)).json() == changed
    assert (await api.get("/limits")).json() == {"levels": [changed]}
    told = control.audit.kept[-1]
    assert (told.action, told.target) == ("limit.change", "team:t1")
    assert told.before == {"rpm": 5, "models": ["a", "b"]}


async def test_places_are_added_renamed_and_listed(api):
    org = (await api.post("/tree/orgs", json={"name": "globex"})).json()
    team = (await api.post("/tree/teams", json={"name": "lab", "org": org["place_id"]})).json()
    project = (await api.post("/tree/projects", json={"name": "x", "team": "globex/lab"})).json()
    assert (project["above_id"], project["path"]) == (team["place_id"], "globex/lab/x")
    renamed = await api.put(f"/tree/team/{team['place_id']}/name", json={"name": "den"})
    assert renamed.status_code == 204
    paths = [place["path"] for place in (await api.get("/tree")).json()["places"]]
    assert "globex/den/x" in paths
    assert (await api.post("/tree/orgs", json={"name": "acme"})).status_code == 409


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/keys", {"name": "x", "project": "nosuch"}, 404),
        ("POST", "/keys", {"name": "x", "project": "p1", "user": "nosuch"}, 404),
        ("POST", "/keys", {"name": "\x00", "project": "p1"}, 400),
        ("POST", "/keys", {"name": "x", "project": "p1", "limits": {"rpm": 0}}, 400),
        ("POST", "/keys", {"name": "x", "project": "p1", "expires_at": 1}, 400),
        ("POST", "/keys", {"name": "x", "project": "p1", "colour": "red"}, 400),
        ("GET", "/keys/nosuch", None, 404),
        ("GET", "/keys/%00", None, 400),
        ("POST", "/keys/nosuch/revoke", None, 404),
        ("PATCH", "/limits/galaxy/p1", {}, 400),
        ("PATCH", "/limits/key/nosuch", {"rpm": 1}, 404),
        ("PATCH", "/limits/org/o1", {"budget": 2**63}, 400),
        ("POST", "/tree/teams", {"name": "a/b", "org": "o1"}, 400),
        ("POST", "/tree/projects", {"name": "x", "team": "nosuch"}, 404),
    ],
)
async def test_what_cannot_be_is_refused_and_changes_nothing(
    api, planted, method, path, body, status
):
    refused = await api.request(method, path, json=body)
    assert refused.status_code == status, refused.text
    assert refused.json()["error"]["message"]
    assert await planted.keys.all() == []
    assert await planted.limits.all() == []


async def test_without_a_store_there_are_no_keys(control):
    bare = dataclasses.replace(control, keys=None, tree=None)
    app = create_app(readiness=FakeReadiness(), control=bare)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        refused = await client.get("/api/v1/keys")
    assert (refused.status_code, refused.json()["error"]["code"]) == (501, "no_store")
