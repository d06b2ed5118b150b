"""Keys, their links and their limits, on each database."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from llmgw.domain.api_keys import KeyClaim, principal
from llmgw.domain.principals import Level
from llmgw.domain.stored import AuditEntry
from llmgw.errors import Conflict, Invalid, Unknown
from tests.fakes.tenants import key, let_in, plant

ENTRY = AuditEntry(at=1.0, actor="root", origin="cli", action="a.b", target="t", outcome="done")
CLAIM = KeyClaim("h1", "k1", sealed=b"\x00sealed", created_at=5.0, expires_at=100.0)


@pytest.fixture(autouse=True)
async def _tree(store):
    await plant(store)


async def test_a_key_is_read_as_it_was_written_and_found_by_its_hash(store):
    await let_in(store)
    made = key(user_id="u1", band="batch", expires_at=99.5)
    await store.keys.add(made, limits=Level("key", "k1", rpm=3), entry=ENTRY)
    assert await store.keys.find("k1") == made
    chain = await store.keys.chain("hash of k1", now=10.0)
    assert (chain.key, chain.team_id, chain.org_id) == (made, "t1", "o1")
    assert [one.counter for one in chain.levels] == ["org:o1", "team:t1", "project:p1", "key:k1"]
    assert chain.levels[3].rpm == 3
    assert await store.keys.chain_of("k1") == chain
    assert await store.keys.chain("nosuch", now=10.0) is None


async def test_a_text_that_is_no_utf8_is_refused(store):
    with pytest.raises(Invalid, match="not UTF-8"):
        await store.keys.find("sk-\udcff")


async def test_a_key_belongs_to_a_project_and_a_person_that_there_are(store):
    for wrong in (key(project_id="nosuch"), key(user_id="nosuch")):
        with pytest.raises(Unknown, match="nosuch"):
            await store.keys.add(wrong, entry=ENTRY)
    assert await store.keys.all() == []
    assert await store.audit.page() == []


async def test_keys_are_listed_by_project_and_person_the_oldest_first(store):
    await let_in(store)
    await store.keys.add(key("k2", created_at=6.0, user_id="u1"))
    await store.keys.add(key("k1", created_at=5.0))
    await store.keys.add(key("k3", created_at=7.0, project_id="p2"))
    assert [one.key_id for one in await store.keys.all()] == ["k1", "k2", "k3"]
    assert [one.key_id for one in await store.keys.all(project_id="p2")] == ["k3"]
    assert [one.key_id for one in await store.keys.all(user_id="u1")] == ["k2"]


async def test_a_revoked_key_stays_and_the_first_time_counts(store):
    await store.keys.add(key(), claim=CLAIM)
    assert (await store.keys.revoke("k1", at=20.0, entry=ENTRY)).revoked_at == 20.0
    assert (await store.keys.revoke("k1", at=30.0, entry=ENTRY)).revoked_at == 20.0
    assert len(await store.audit.page()) == 1
    assert await store.claims.open("h1", at=21.0) is None
    assert (await store.keys.chain("hash of k1", now=40.0)).key.revoked_at == 20.0


async def test_a_rotated_key_is_the_same_one_and_its_old_secret_is_good_for_a_while(store):
    before = key()
    await store.keys.add(before, limits=Level("key", "k1", budget=9))
    after = dataclasses.replace(
        before, key_hash="new", prefix="sk-new", previous_hash="hash of k1", previous_until=50.0
    )
    assert await store.keys.rotate(before, after, entry=ENTRY) == after
    assert (await store.keys.chain("new", now=60.0)).levels[3].budget == 9
    old = await store.keys.chain("hash of k1", now=49.0)
    assert (old.key.key_id, principal(old).expires_at) == ("k1", 50.0)
    assert await store.keys.chain("hash of k1", now=50.0) is None
    with pytest.raises(Conflict, match="meanwhile"):
        await store.keys.rotate(before, after)


async def test_a_key_moves_to_another_project(store):
    await store.keys.add(key())
    assert (await store.keys.move("k1", project_id="p2", entry=ENTRY)).project_id == "p2"
    assert (await store.keys.chain_of("k1")).levels[2].counter == "project:p2"
    for name, project in (("nosuch", "p1"), ("k1", "nosuch")):
        with pytest.raises(Unknown, match="nosuch"):
            await store.keys.move(name, project_id=project)


async def test_when_a_key_was_used_last_never_goes_back(store):
    for name in ("k1", "k2"):
        await store.keys.add(key(name))
    await store.keys.touch({"k1": 50.0, "k2": 51.0, "gone": 1.0})
    await store.keys.touch({"k1": 40.0})
    await store.keys.touch({})
    assert [one.last_used_at for one in await store.keys.all()] == [50.0, 51.0]


async def test_a_link_opens_its_key_once_however_many_press(store):
    await store.keys.add(key(), claim=CLAIM)
    assert await store.claims.find("h1") == CLAIM
    opened = await asyncio.gather(*(store.claims.open("h1", at=20.0) for _ in range(6)))
    assert [one for one in opened if one is not None] == [CLAIM]
    left = await store.claims.find("h1")
    assert (left.sealed, left.claimed_at, left.is_open(21.0)) == (b"", 20.0, False)


async def test_a_link_that_ran_out_opens_nothing_and_is_emptied(store):
    await store.keys.add(key(), claim=CLAIM)
    assert await store.claims.open("h1", at=100.0) is None
    assert await store.claims.prune(now=99.0) == 0
    assert await store.claims.prune(now=100.0) == 1
    assert (await store.claims.find("h1")).sealed == b""
    assert await store.claims.find("nosuch") is None


async def test_limits_are_set_one_by_one_and_taken_away(store):
    await store.limits.change("team", "t1", {"rpm": 5, "models": frozenset({"b", "a"})})
    after = await store.limits.change("team", "t1", {"budget": 0, "period": "day"}, entry=ENTRY)
    assert after == Level("team", "t1", rpm=5, budget=0, period="day", models=frozenset({"a", "b"}))
    assert await store.limits.find("team", "t1") == after
    assert await store.limits.all() == [after]
    (told,) = await store.audit.page()
    assert told.before == {"rpm": 5, "models": ["a", "b"]}
    assert told.after == {"rpm": 5, "budget": 0, "period": "day", "models": ["a", "b"]}
    await store.limits.change("team", "t1", {"rpm": None, "budget": None, "models": None})
    assert await store.limits.all() == []


async def test_an_empty_list_of_models_is_not_the_same_as_none(store):
    await store.limits.change("org", "o1", {"models": frozenset()})
    await store.keys.add(key())
    assert principal(await store.keys.chain_of("k1")).models == frozenset()


async def test_what_is_no_limit_or_no_place_is_refused(store):
    for wrong in ({"rpm": 0}, {"budget": -1}, {"concurrency": 0}):
        with pytest.raises(Invalid):
            await store.limits.change("org", "o1", wrong, entry=ENTRY)
    with pytest.raises(Unknown, match="team 'o1'"):
        await store.limits.change("team", "o1", {"rpm": 1}, entry=ENTRY)
    with pytest.raises(Unknown):
        await store.limits.find("key", "k9")
    assert await store.limits.all() == []
    assert await store.audit.page() == []
