"""Keys from their making to their end, the tree that they hang in, on a real store."""

from __future__ import annotations

import dataclasses

import pytest

from llmgw.accounts.directory import Directory
from llmgw.accounts.keys import KeyMaking, KeyWish
from llmgw.accounts.noting import Telling
from llmgw.accounts.sealing import CLAIM_S, Claiming
from llmgw.domain import people
from llmgw.domain.actors import Actor
from llmgw.domain.principals import Level
from llmgw.errors import Conflict, Invalid, KeyUnknown, Unknown
from tests.fakes.clock import FakeClock
from tests.fakes.tenants import plant

ANN = Actor("ann", origin="cli")
WISH = KeyWish("notebook", project_id="p1")


@pytest.fixture
def address(tmp_path):
    return str(tmp_path / "store.db")


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def making(store, clock):
    await plant(store)
    telling = Telling(store.audit, clock=clock)
    return KeyMaking(store.keys, clock=clock, telling=telling, bands=("high", "low"))


@pytest.fixture
def directory(store, clock):
    telling = Telling(store.audit, clock=clock)
    return Directory(
        tree=store.tree, keys=store.keys, limits=store.limits, clock=clock, telling=telling
    )


async def opens(directory, secret):
    try:
        return await directory.principal_of(people.digest(secret))
    except KeyUnknown:
        return None


async def told(store):
    return [(one.action, one.outcome) for one in reversed(await store.audit.page())]


async def test_a_key_opens_what_the_tree_above_it_allows(store, making, directory):
    await store.limits.change("org", "o1", {"models": frozenset({"a", "b"})})
    wish = dataclasses.replace(WISH, band="low", limits={"rpm": 5, "models": frozenset({"b"})})
    made = await making.create(wish, actor=ANN)
    owner = await opens(directory, made.secret)
    assert (owner.key_id, owner.org_id, owner.band) == (made.key.key_id, "o1", "low")
    assert owner.levels[3] == Level("key", owner.key_id, rpm=5, models=frozenset({"b"}))
    assert owner.models == {"b"}


async def test_a_secret_is_in_no_store_and_no_repr(store, making, tmp_path):
    made = await making.create(dataclasses.replace(WISH, claim_s=60.0), actor=ANN)
    await store.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert made.secret[:11].encode() in kept
    assert made.secret.encode() not in kept
    assert made.claim.token.encode() not in kept
    assert made.secret not in repr(made)
    assert made.secret.startswith("sk-")
    assert len(made.secret) == 46


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"name": "  "}, Invalid),
        ({"name": "x" * 101}, Invalid),
        ({"band": "nosuch"}, Invalid),
        ({"expires_at": 1.0}, Invalid),
        ({"expires_at": 2.6e11}, Invalid),
        ({"expires_at": float("nan")}, Invalid),
        ({"claim_s": 2.6e11}, Invalid),
        ({"limits": {"rpm": 0}}, Invalid),
        ({"project_id": "nosuch"}, Unknown),
        ({"user_id": "nosuch"}, Unknown),
    ],
    ids=str,
)
async def test_a_key_that_cannot_be_is_refused_and_told_of(store, making, changed, error):
    with pytest.raises(error):
        await making.create(dataclasses.replace(WISH, **changed), actor=ANN)
    assert await store.keys.all() == []
    assert await told(store) == [("key.create", error.code)]


async def test_a_key_ends_with_its_time_or_when_it_is_revoked(store, making, directory, clock):
    ends = await making.create(dataclasses.replace(WISH, expires_at=clock.wall() + 10), actor=ANN)
    revoked = await making.create(WISH, actor=ANN)
    await making.revoke(revoked.key.key_id, actor=ANN)
    assert await opens(directory, revoked.secret) is None
    assert await opens(directory, ends.secret) is not None
    clock.advance(10)
    assert await opens(directory, ends.secret) is None
    with pytest.raises(Unknown):
        await making.revoke("nosuch", actor=ANN)
    assert (await told(store))[2:] == [("key.revoke", "done"), ("key.revoke", "unknown")]


async def test_while_a_key_is_rotated_both_secrets_open_it_and_then_one(making, directory, clock):
    first = await making.create(WISH, actor=ANN)
    second = await making.rotate(first.key.key_id, actor=ANN, overlap_s=60)
    assert (await opens(directory, first.secret)).expires_at == clock.wall() + 60
    assert await opens(directory, second.secret) is not None
    third = await making.rotate(first.key.key_id, actor=ANN, overlap_s=60)
    assert await opens(directory, first.secret) is None
    assert (await opens(directory, second.secret)).key_id == first.key.key_id
    clock.advance(60)
    assert await opens(directory, second.secret) is None
    assert await opens(directory, third.secret) is not None
    await making.revoke(first.key.key_id, actor=ANN)
    with pytest.raises(Conflict, match="revoked"):
        await making.rotate(first.key.key_id, actor=ANN)


async def test_a_secret_that_would_be_good_for_ever_is_refused_before_another_is_made(making):
    made = await making.create(WISH, actor=ANN)
    with pytest.raises(Invalid, match="after the year 9999"):
        await making.rotate(made.key.key_id, actor=ANN, overlap_s=2.6e11)
    assert await making.find(made.key.key_id) == made.key


async def test_a_link_shows_its_key_once_and_only_in_time(store, making, directory, clock):
    claiming = Claiming(store.claims, clock=clock)
    wish = dataclasses.replace(WISH, claim_s=CLAIM_S)
    made, late = [await making.create(wish, actor=ANN) for _ in range(2)]
    for _ in range(2):
        assert (await claiming.look(made.claim.token)).key_id == made.key.key_id
    opened = await claiming.open(made.claim.token)
    assert opened.secret == made.secret
    assert await opens(directory, opened.secret) is not None
    clock.advance(CLAIM_S)
    for dead in (made.claim.token, late.claim.token, "nosuch"):
        for ask in (claiming.look, claiming.open):
            with pytest.raises(Unknown, match="opens nothing"):
                await ask(dead)


async def test_a_key_is_named_by_its_id_or_its_begin(making):
    made = (await making.create(WISH, actor=ANN)).key
    assert await making.find(made.key_id) == made
    assert await making.find(made.prefix) == made
    with pytest.raises(Unknown):
        await making.find("nosuch")


async def test_places_are_added_renamed_and_limited_by_name(store, making, directory):
    org = await directory.add_org("globex", actor=ANN)
    await directory.add_team("lab", org="globex", actor=ANN)
    project = await directory.add_project("chat", team="globex/lab", actor=ANN)
    tree = await directory.tree()
    assert tree.path(project) == "globex/lab/chat"
    await directory.rename("org", "globex", "initech", actor=ANN)
    await directory.limit("org", "initech", {"budget": 0, "period": "day"}, actor=ANN)
    assert (await directory.level("org", org.org_id)).period == "day"
    with pytest.raises(Invalid):
        await directory.limit("org", "initech", {"rpm": -1}, actor=ANN)
    with pytest.raises(Conflict):
        await directory.add_org("acme", actor=ANN)
    assert (await told(store))[3:] == [
        ("org.rename", "done"),
        ("limits.change", "done"),
        ("limits.change", "invalid"),
        ("org.add", "conflict"),
    ]


async def test_the_first_places_are_made_once_and_renamed_when_asked_to(store, directory):
    names = {"org": "acme", "team": "all", "project": "first"}
    assert await directory.found(**names, actor=ANN)
    assert not await directory.found(**names, actor=ANN)
    assert await directory.found(**{**names, "team": "everybody"}, actor=ANN)
    tree = await directory.tree()
    assert tree.path(tree.project("default")) == "acme/everybody/first"
    assert len(await store.audit.page()) == 2
