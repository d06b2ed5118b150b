"""The lease of leadership, on each database; a fresh one for each test."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.store.leases_repo import LeasesRepo
from tests.fakes.stores import make_room

LONG_S, SHORT_S = 60.0, 0.2


@pytest.fixture
def lease(store):
    """What takes the lease, as the process of a name would."""

    def take(owner, ttl_s=LONG_S):
        return store.leases.take(owner=owner, address=f"{owner}:9090", ttl_s=ttl_s)

    return take


@pytest.fixture
async def rivals(address, opened):
    """Takers of the same lease, each with a store of its own."""

    async def make(count):
        return [(await opened(address)).leases for _ in range(count)]

    return make


async def test_the_first_taker_leads_in_the_first_term(lease):
    held = await lease("a")
    assert (held.owner, held.term, held.address) == ("a", 1, "a:9090")
    assert 0 < held.left_s <= LONG_S


async def test_a_renewal_keeps_the_term_and_gives_new_time(lease):
    await lease("a", 1.0)
    held = await lease("a")
    assert (held.owner, held.term) == ("a", 1)
    assert held.left_s > 1.0


async def test_who_comes_second_is_told_who_leads(rivals):
    first, second = await rivals(2)
    await first.take(owner="a", address="a:9090", ttl_s=LONG_S)
    told = await second.take(owner="b", address="b:9090", ttl_s=LONG_S)
    assert (told.owner, told.address, told.term) == ("a", "a:9090", 1)


async def test_the_next_owner_has_the_next_term(rivals):
    first, second = await rivals(2)
    await first.take(owner="a", address="", ttl_s=LONG_S)
    await first.release(owner="a")
    told = await second.take(owner="b", address="", ttl_s=LONG_S)
    assert (told.owner, told.term) == ("b", 2)


async def test_a_lease_that_ran_out_is_its_owner_s_still_if_nobody_took_it(lease):
    await lease("a", SHORT_S)
    await asyncio.sleep(2 * SHORT_S)
    held = await lease("a")
    assert (held.owner, held.term) == ("a", 1)


async def test_releasing_what_is_somebody_else_s_changes_nothing(rivals):
    first, second = await rivals(2)
    await first.take(owner="a", address="", ttl_s=LONG_S)
    await second.release(owner="b")
    told = await second.take(owner="b", address="", ttl_s=LONG_S)
    assert told.owner == "a"


async def test_a_term_is_above_the_one_that_was_asked_for(store):
    take = store.leases.take
    assert (await take(owner="a", address="", ttl_s=LONG_S, above_term=4)).term == 5
    assert (await take(owner="a", address="", ttl_s=LONG_S, above_term=4)).term == 5
    assert (await take(owner="a", address="", ttl_s=LONG_S, above_term=9)).term == 10


async def test_of_forty_racing_takers_one_wins(address, opened):
    stores = [await opened(address) for _ in range(8)]
    racers = [LeasesRepo(store.database) for store in stores for _ in range(5)]
    told = await asyncio.gather(
        *(
            racer.take(owner=f"r{number}", address="", ttl_s=LONG_S)
            for number, racer in enumerate(racers)
        )
    )
    winners = [number for number, one in enumerate(told) if one and one.owner == f"r{number}"]
    assert len(winners) == 1
    assert {one.owner for one in told if one is not None} == {f"r{winners[0]}"}


class TestOnPostgresql:
    """Where takers may be on different machines, time alone ends a lease."""

    @pytest.fixture
    def address(self, postgres):
        return make_room(postgres)

    async def test_a_lease_that_ran_out_is_taken_and_the_term_rises(self, rivals):
        first, second = await rivals(2)
        await first.take(owner="a", address="", ttl_s=SHORT_S)
        await asyncio.sleep(2 * SHORT_S)
        told = await second.take(owner="b", address="", ttl_s=LONG_S)
        assert (told.owner, told.term) == ("b", 2)
        assert (await first.take(owner="a", address="", ttl_s=LONG_S)).owner == "b"

    async def test_leases_of_two_names_are_strangers(self, store):
        other = LeasesRepo(store.database, name="other")
        await store.leases.take(owner="a", address="", ttl_s=LONG_S)
        assert (await other.take(owner="b", address="", ttl_s=LONG_S)).owner == "b"


class TestOnSqlite:
    """Where takers are on one machine, the lock beside the file decides."""

    @pytest.fixture
    def address(self, tmp_path):
        return str(tmp_path / "store.db")

    async def test_who_has_the_lock_of_a_dead_leader_need_not_wait(self, rivals):
        first, second = await rivals(2)
        await first.take(owner="a", address="", ttl_s=LONG_S)
        first._lock.release()  # as the system does for a process that dies
        told = await second.take(owner="b", address="", ttl_s=LONG_S)
        assert (told.owner, told.term) == ("b", 2)

    async def test_a_leader_that_stands_still_keeps_its_place(self, rivals):
        """It holds the lock, so it would lead again at once when it goes on: nobody else may."""
        first, second = await rivals(2)
        await first.take(owner="a", address="", ttl_s=SHORT_S)
        await asyncio.sleep(2 * SHORT_S)
        told = await second.take(owner="b", address="", ttl_s=LONG_S)
        assert told.owner == "a"
        assert told.left_s <= 0
