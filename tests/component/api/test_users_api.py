"""People through the admin API, on a real store."""

from __future__ import annotations

import dataclasses

import httpx
import pytest

from llmgw.accounts.signing_in import new_user_id
from llmgw.api.application import create_app
from llmgw.config.settings import ServerSettings
from llmgw.domain.people import User, UserState
from llmgw.serve import accounts
from tests.fakes.fleet import FakeFleet, FakeReadiness, control_of

EMAIL = "ann@example.org"


@pytest.fixture
def joined(planted, clock):
    return accounts.joined(planted, settings=ServerSettings(), clock=clock)


@pytest.fixture
def control(joined):
    made = control_of(FakeFleet())
    return dataclasses.replace(made, tree=joined.directory, people=joined.people.desk)


@pytest.fixture
async def api(control):
    app = create_app(readiness=FakeReadiness(), control=control)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v1") as client:
        yield client


async def test_a_password_is_in_the_answer_that_made_it_and_nowhere_else(api, joined, control):
    made = await api.post("/users", json={"email": EMAIL, "project": "acme/research/chat"})
    assert made.status_code == 201, made.text
    user, password = made.json()["user"], made.json()["password"]
    assert (user["state"], user["project_id"]) == ("active", "p1")
    assert await joined.people.accounts.sign_in(email=EMAIL, password=password)
    (told,) = control.audit.kept
    assert (told.action, told.target, told.outcome) == ("user.create", user["user_id"], "done")
    shown = [await api.get("/users"), await api.get(f"/users/{EMAIL}")]
    for text in (*(answer.text for answer in shown), repr(told)):
        assert password not in text
        assert "argon2id" not in text


async def test_who_waits_is_approved_suspended_and_restored(api, planted, control):
    waiting = User(new_user_id(), EMAIL, "Ann", UserState.PENDING, 1.0)
    await planted.people.add(waiting)
    (listed,) = (await api.get("/users", params={"state": "pending"})).json()["users"]
    assert (listed["email"], listed["approved_at"]) == (EMAIL, None)
    told = [
        (await api.post(f"/users/{EMAIL}/{act}", json=body)).json()["state"]
        for act, body in (("approve", {"project": "p1"}), ("suspend", None), ("restore", None))
    ]
    assert told == ["active", "suspended", "active"]
    again = await api.post(f"/users/{EMAIL}/approve", json={"project": "p1"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
    assert [(act.action, act.outcome) for act in control.audit.kept] == [
        ("user.approve", "done"),
        ("user.suspend", "done"),
        ("user.restore", "done"),
        ("user.approve", "conflict"),
    ]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/users", {"email": "ann", "project": "p1"}, 400),
        ("/users", {"email": EMAIL, "project": "nowhere"}, 404),
        ("/users", {"email": EMAIL, "project": "p1", "is_admin": True}, 400),
        ("/users/nobody/approve", {"project": "p1"}, 404),
        ("/users/nobody/suspend", None, 404),
    ],
)
async def test_what_cannot_be_is_refused(api, path, body, status):
    assert (await api.post(path, json=body)).status_code == status
    assert (await api.get("/users")).json() == {"users": []}


@pytest.fixture
def storeless():
    return create_app(readiness=FakeReadiness(), control=control_of(FakeFleet()))


async def test_without_a_store_there_are_no_people(storeless):
    transport = httpx.ASGITransport(app=storeless)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/api/v1/users")
    assert (answer.status_code, answer.json()["error"]["code"]) == (501, "no_store")
