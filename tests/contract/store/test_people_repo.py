"""People and their sessions, on each database."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from llmgw.domain.people import UserState
from llmgw.domain.stored import AuditEntry
from llmgw.errors import Conflict, EmailTaken, Invalid, Unknown
from tests.fakes.tenants import ANN, PROJECT, let_in, plant, session

BOB = dataclasses.replace(ANN, user_id="u2", email="bob@example.org", name="Bob")
ENTRY = AuditEntry(at=1.0, actor="root", origin="cli", action="a.b", target="t", outcome="done")


@pytest.fixture(autouse=True)
async def _tree(store):
    await plant(store)


async def test_a_person_is_read_as_it_was_written(store):
    await store.people.add(BOB)
    await store.people.add(ANN, entry=ENTRY)
    assert await store.people.all() == [ANN, BOB]
    assert await store.people.find("u1") == ANN
    assert await store.people.by_email(ANN.email) == ANN
    assert await store.people.by_email("nobody@example.org") is None
    assert [one.actor for one in await store.audit.page()] == ["root"]


async def test_an_address_has_one_person_however_many_sign_up_at_once(store):
    same = [dataclasses.replace(ANN, user_id=f"u{n}") for n in range(6)]
    done = await asyncio.gather(*map(store.people.add, same), return_exceptions=True)
    assert sum(one is None for one in done) == 1
    assert sum(isinstance(one, EmailTaken) for one in done) == 5


async def test_a_pending_person_is_approved_into_a_project_that_there_is(store):
    await store.people.add(ANN)
    for project, error in (("", Invalid), ("nosuch", Unknown)):
        with pytest.raises(error):
            await store.people.approve("u1", project_id=project, by="root", at=4.0)
    assert await store.people.find("u1") == ANN
    ann = await store.people.approve("u1", project_id="p1", by="root", at=4.0, entry=ENTRY)
    assert (ann.state, ann.project_id, ann.approved_by) == (UserState.ACTIVE, "p1", "root")
    assert ann == await store.people.find("u1")
    with pytest.raises(Conflict, match="waits for no approval"):
        await store.people.approve("u1", project_id="p1", by="root", at=5.0)


async def test_suspending_ends_sessions_and_restoring_brings_none_back(store):
    await let_in(store)
    await store.sessions.add(session())
    suspended = await store.people.set_state("u1", UserState.SUSPENDED, entry=ENTRY)
    assert suspended.state is UserState.SUSPENDED
    assert await store.sessions.find("s1", now=20.0) is None
    with pytest.raises(Conflict):
        await store.people.set_state("u1", UserState.SUSPENDED)
    with pytest.raises(Conflict, match="not active"):
        await store.sessions.add(session("s2"))
    await store.people.set_state("u1", UserState.ACTIVE)
    assert await store.sessions.find("s1", now=20.0) is None


async def test_who_was_never_approved_is_not_restored_but_approved(store):
    await store.people.add(ANN)
    await store.people.set_state("u1", UserState.SUSPENDED)
    with pytest.raises(Conflict, match="never approved"):
        await store.people.set_state("u1", UserState.ACTIVE)
    assert (await let_in_again(store)).state is UserState.ACTIVE


async def let_in_again(store):
    return await store.people.approve("u1", project_id=PROJECT.project_id, by="root", at=9.0)


async def test_another_password_ends_sessions_of_that_person_alone(store):
    await let_in(store)
    await let_in(store, BOB)
    await store.sessions.add(session())
    await store.sessions.add(session("s2", user_id="u2"))
    changed = await store.people.set_password("u1", "$other", entry=ENTRY)
    assert changed.password_hash == "$other"
    assert await store.sessions.find("s1", now=20.0) is None
    assert await store.sessions.find("s2", now=20.0) is not None


async def test_people_sign_in_elsewhere_by_a_name_that_is_one_persons(store):
    await let_in(store)
    elsewhere = dataclasses.replace(BOB, issuer="https://id", subject="7")
    await store.people.add(elsewhere)
    assert await store.people.by_subject(issuer="https://id", subject="7") == elsewhere
    assert await store.people.by_subject(issuer="https://other", subject="7") is None
    same = dataclasses.replace(elsewhere, user_id="u3", email="c@example.org")
    with pytest.raises(Conflict, match="7 of https://id"):
        await store.people.add(same)


async def test_people_move_to_projects_that_are_there(store):
    await let_in(store)
    moved = await store.people.set_project("u1", project_id="p2", entry=ENTRY)
    assert (moved.project_id, await store.people.find("u1")) == ("p2", moved)
    with pytest.raises(Unknown):
        await store.people.set_project("u1", project_id="p9")


async def test_flags_and_logins_are_kept(store):
    await let_in(store)
    assert (await store.people.set_admin("u1", is_admin=True)).is_admin
    await store.people.touch_login("u1", at=50.0)
    assert (await store.people.find("u1")).last_login_at == 50.0
    assert await store.people.all(state=UserState.PENDING) == []
    with pytest.raises(Unknown, match="nosuch"):
        await store.people.set_admin("nosuch", is_admin=True)


async def test_a_session_lasts_until_it_ends_or_runs_out(store):
    ann = await let_in(store)
    for name in ("s1", "s2", "s3"):
        await store.sessions.add(session(name))
    assert await store.sessions.find("s1", now=99.0) == (session(), ann)
    assert await store.sessions.find("s1", now=100.0) is None
    await store.sessions.touch("s1", at=42.0)
    found, _ = await store.sessions.find("s1", now=50.0)
    assert found.last_seen_at == 42.0
    await store.sessions.remove("s1")
    await store.sessions.remove("s1")
    assert await store.sessions.find("s1", now=50.0) is None
    assert await store.sessions.prune(now=100.0) == 2


async def test_all_sessions_of_one_person_end_together(store):
    await let_in(store)
    for name in ("s1", "s2"):
        await store.sessions.add(session(name))
    await store.sessions.remove_all("u1")
    assert [await store.sessions.find(name, now=50.0) for name in ("s1", "s2")] == [None, None]
