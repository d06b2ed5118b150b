"""Whose keys a gateway process remembers, for how long, and what it says while nobody can tell."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.domain.people import digest
from llmgw.errors import KeysUnavailable, KeyUnknown
from llmgw.serve.key_cache import KeyCache, Lifetimes
from llmgw.serve.messages import KeyAnswer
from tests.fakes.clock import FakeClock
from tests.fakes.principals import principal

OWNER = principal()


class Registry:
    """Who opens the store, as a cache asks it; ``is_away`` while nobody can tell."""

    def __init__(self):
        self.owners = {digest("sk-1"): OWNER}
        self.asked = []
        self.is_away = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def ask(self, key_hash):
        self.asked.append(key_hash)
        await self.may_answer.wait()
        if self.is_away:
            raise KeysUnavailable("away")
        owner = self.owners.get(key_hash)
        outcome = "unknown" if owner is None else "known"
        return KeyAnswer(key_hash=key_hash, outcome=outcome, principal=owner, slots={"key:k1": 3})


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def registry():
    return Registry()


@pytest.fixture
async def cache(registry, clock):
    learnt = {}
    cache = KeyCache(
        registry.ask,
        lifetimes=Lifetimes(good_s=30, bad_s=5, stale_s=3600),
        learn=learnt.update,
        clock=clock,
        most=4,
    )
    cache.learnt = learnt
    yield cache
    await cache.close()


async def quiet():
    """Let what is under way come to its end."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_key_is_asked_for_once_and_then_known(cache, registry):
    assert cache.known("sk-1") is None
    assert await cache.ask("sk-1") is OWNER
    assert cache.known("sk-1") is OWNER
    assert (registry.asked, cache.learnt) == ([digest("sk-1")], {"key:k1": 3})


async def test_many_requests_ask_once(cache, registry):
    registry.may_answer.clear()
    asking = [asyncio.create_task(cache.ask("sk-1")) for _ in range(50)]
    await quiet()
    registry.may_answer.set()
    assert set(await asyncio.gather(*asking)) == {OWNER}
    assert len(registry.asked) == 1


async def test_key_in_use_is_asked_after_before_it_is_too_old(cache, registry, clock):
    await cache.ask("sk-1")
    clock.advance(16)
    cache.cool()
    registry.owners[digest("sk-1")] = changed = principal(key_limits={"rpm": 1})
    assert cache.known("sk-1") is OWNER, "no request waits for it"
    await quiet()
    assert cache.known("sk-1") is changed


async def test_revoked_key_stops_within_its_time(cache, registry, clock):
    await cache.ask("sk-1")
    registry.owners.clear()
    clock.advance(30)
    cache.cool()
    assert cache.known("sk-1") is None
    with pytest.raises(KeyUnknown):
        await cache.ask("sk-1")


async def test_wrong_key_costs_one_question_in_its_time(cache, registry, clock):
    for _ in range(20):
        with pytest.raises(KeyUnknown):
            await cache.ask("wrong")
    assert len(registry.asked) == 1
    clock.advance(5)
    with pytest.raises(KeyUnknown):
        await cache.ask("wrong")
    assert len(registry.asked) == 2


async def test_guesses_drive_out_no_good_key(cache):
    await cache.ask("sk-1")
    for n in range(20):
        with pytest.raises(KeyUnknown):
            await cache.ask(f"guess {n}")
    assert cache.known("sk-1") is OWNER


async def test_what_was_heard_of_longest_ago_is_forgotten(cache, registry):
    for n in range(6):
        registry.owners[digest(f"sk-{n}")] = principal(f"k{n}")
        await cache.ask(f"sk-{n}")
    assert [cache.known(f"sk-{n}") is not None for n in range(6)] == [False] * 2 + [True] * 4


async def test_while_nobody_can_tell_good_keys_stay_good_and_others_are_told_to_wait(
    cache, registry, clock
):
    await cache.ask("sk-1")
    registry.is_away = True
    for _ in range(60):
        clock.advance(31)
        owner = cache.known("sk-1") or await cache.ask("sk-1")
        assert owner is OWNER
    with pytest.raises(KeysUnavailable) as caught:
        await cache.ask("never seen")
    assert caught.value.retry_after_s > 0


async def test_good_key_waits_for_nobody_who_did_not_answer_just_now(cache, registry, clock):
    await cache.ask("sk-1")
    registry.is_away = True
    clock.advance(31)
    await cache.ask("sk-1")
    registry.may_answer.clear()
    assert cache.known("sk-1") is OWNER
    clock.advance(4)
    assert cache.known("sk-1") is OWNER


async def test_good_key_is_not_good_for_ever_without_news(cache, registry, clock):
    await cache.ask("sk-1")
    registry.is_away = True
    clock.advance(3601)
    with pytest.raises(KeysUnavailable):
        await cache.ask("sk-1")


async def test_key_whose_time_is_over_opens_nothing_though_nobody_can_tell(cache, registry, clock):
    ends_at = clock.wall() + 10
    registry.owners[digest("sk-1")] = principal(expires_at=ends_at)
    assert await cache.ask("sk-1")
    registry.is_away = True
    clock.advance(10)
    assert cache.known("sk-1") is None
    with pytest.raises(KeyUnknown):
        await cache.ask("sk-1")


async def test_key_that_is_revoked_while_nobody_can_tell_stops_when_somebody_can(
    cache, registry, clock
):
    await cache.ask("sk-1")
    registry.is_away = True
    clock.advance(31)
    await cache.ask("sk-1")
    registry.is_away = False
    registry.owners.clear()
    clock.advance(6)
    with pytest.raises(KeyUnknown):
        await cache.ask("sk-1")


async def test_key_itself_is_kept_for_a_moment_only(cache, registry):
    await cache.ask("sk-1")
    assert cache.known("sk-1") is OWNER
    assert cache._hot == {"sk-1": OWNER}
    cache.cool()
    assert cache._hot == {}
    assert cache.known("sk-1") is OWNER
    registry.owners[digest("sk-2")] = principal("k2")
    await cache.ask("sk-2")
    assert cache._hot == {}, "news of any key end it"
