"""What administrators do about people, and what the log of acts is told of it."""

from __future__ import annotations

import pytest

from llmgw.accounts.noting import Telling
from llmgw.accounts.passwords import Cost, Passwords
from llmgw.accounts.people_desk import Newcomer, PeopleDesk
from llmgw.accounts.signing_in import SigningIn
from llmgw.domain.actors import Actor
from llmgw.domain.people import UserState
from llmgw.errors import (
    BadCredentials,
    Conflict,
    EmailTaken,
    Invalid,
    NoSession,
    Unknown,
    WeakPassword,
)
from tests.fakes.people import FakePeople

ROOT = Actor("root", origin="cli")
EMAIL, PASSWORD = "ann@example.org", "correct horse battery"


class Acts:
    """Refusals that were told alone."""

    def __init__(self):
        self.entries = []

    async def append(self, entry):
        self.entries.append(entry)


@pytest.fixture
def people():
    return FakePeople()


@pytest.fixture
def acts():
    return Acts()


@pytest.fixture
def accounts(people, clock):
    return SigningIn(
        users=people,
        sessions=people.sessions,
        passwords=Passwords(Cost(time=1, memory_kib=64, parallelism=1)),
        clock=clock,
    )


@pytest.fixture
def desk(people, acts, accounts, clock):
    return PeopleDesk(people, accounts=accounts, telling=Telling(acts, clock=clock), clock=clock)


def newcomer(**given):
    return Newcomer(**{"email": EMAIL, "name": "Ann", "project_id": "p1", **given})


def told(entries):
    return [(one.action, one.target, one.actor, one.outcome) for one in entries]


async def test_a_made_account_is_active_with_a_password_that_is_shown_once(desk, people, accounts):
    issued = await desk.create(newcomer(is_admin=True), actor=ROOT)
    assert (issued.user.state, issued.user.is_admin) == (UserState.ACTIVE, True)
    assert issued.user.approved_by == "root"
    assert await accounts.sign_in(email=EMAIL, password=issued.password)
    assert issued.password not in repr(issued)
    assert told(people.entries) == [("user.create", EMAIL, "root", "done")]
    assert people.entries[0].after == {"project_id": "p1", "is_admin": True}


async def test_a_given_password_is_not_told_back(desk, accounts):
    issued = await desk.create(newcomer(password=PASSWORD), actor=ROOT)
    assert issued.password is None
    assert await accounts.sign_in(email=EMAIL, password=PASSWORD)


async def test_refused_acts_are_told_too(desk, acts):
    await desk.create(newcomer(), actor=ROOT)
    for refused, wanted in (
        (EmailTaken, newcomer()),
        (WeakPassword, newcomer(email="b@example.org", password="short")),
    ):
        with pytest.raises(refused):
            await desk.create(wanted, actor=ROOT)
    with pytest.raises(Unknown):
        await desk.suspend("nobody", actor=ROOT)
    assert told(acts.entries) == [
        ("user.create", EMAIL, "root", "email_taken"),
        ("user.create", "b@example.org", "root", "weak_password"),
        ("user.suspend", "nobody", "root", "unknown"),
    ]


async def test_who_waits_is_approved_into_a_project_once(desk, accounts, people):
    await accounts.sign_up(email=EMAIL, name="Ann", password=PASSWORD)
    with pytest.raises(Invalid):
        await desk.approve(EMAIL, project_id="", actor=ROOT)
    approved = await desk.approve("Ann@Example.org", project_id="p1", actor=ROOT)
    assert (approved.state, approved.approved_by) == (UserState.ACTIVE, "root")
    with pytest.raises(Conflict):
        await desk.approve(approved.user_id, project_id="p1", actor=ROOT)


async def test_suspending_ends_sessions_and_restoring_brings_none_back(desk, accounts):
    await desk.create(newcomer(password=PASSWORD), actor=ROOT)
    opened = await accounts.sign_in(email=EMAIL, password=PASSWORD)
    await desk.suspend(EMAIL, actor=ROOT)
    with pytest.raises(NoSession):
        await accounts.resolve(opened.token)
    assert [user.email for user in await desk.all(state=UserState.SUSPENDED)] == [EMAIL]
    await desk.restore(EMAIL, actor=ROOT)
    with pytest.raises(NoSession):
        await accounts.resolve(opened.token)


async def test_a_reset_password_replaces_the_old_one_and_ends_sessions(desk, accounts):
    await desk.create(newcomer(password=PASSWORD), actor=ROOT)
    opened = await accounts.sign_in(email=EMAIL, password=PASSWORD)
    issued = await desk.reset_password(EMAIL, actor=ROOT)
    with pytest.raises(NoSession):
        await accounts.resolve(opened.token)
    with pytest.raises(BadCredentials):
        await accounts.sign_in(email=EMAIL, password=PASSWORD)
    assert await accounts.sign_in(email=EMAIL, password=issued.password)


async def test_the_flag_of_an_administrator_is_given_and_taken(desk, people):
    await desk.create(newcomer(), actor=ROOT)
    assert (await desk.set_admin(EMAIL, is_admin=True, actor=ROOT)).is_admin
    assert not (await desk.set_admin(EMAIL, is_admin=False, actor=ROOT)).is_admin
    assert [action for action, *_ in told(people.entries)][1:] == ["user.promote", "user.demote"]
