"""Two processes and one store: one leads at a time, and the other in time."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from tests.fakes.electorate import Wire, assert_one_leader_at_a_time, electorate
from tests.fakes.stores import make_room

TTL_S, EVERY_S = 3.0, 0.5
WITHIN_S = TTL_S + 2.0
RELEASED_WITHIN_S = EVERY_S + 2.0
LOAD = 3.0
"""So much longer may it take while other work wants the processor too."""

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def stand():
    async with electorate(ttl_s=TTL_S, every_s=EVERY_S) as start:
        yield start


@pytest.fixture
def room(postgres):
    return make_room(postgres)


@pytest.fixture
async def pair(stand, room):
    """A leader and a standby on PostgreSQL."""
    first = await stand("first", room)
    await first.until(leads=True)
    second = await stand("second", room)
    await asyncio.sleep(2 * EVERY_S)
    assert not second.leads
    return first, second


async def test_the_other_leads_within_ttl_and_two_seconds_of_a_kill(pair):
    first, second = pair
    killed_at = time.monotonic()
    first.kill()
    assert await second.until(leads=True) - killed_at < WITHIN_S * LOAD
    assert_one_leader_at_a_time(first, second)


async def test_an_orderly_end_hands_over_at_once(pair):
    first, second = pair
    ended_at = time.monotonic()
    first.process.terminate()
    assert await second.until(leads=True) - ended_at < RELEASED_WITHIN_S * LOAD
    await first.ended()
    assert first.process.returncode == 0
    assert_one_leader_at_a_time(first, second)


async def test_a_frozen_leader_does_not_lead_when_it_goes_on(pair):
    first, second = pair
    first.freeze()
    frozen_at = time.monotonic()
    assert await second.until(leads=True) - frozen_at < WITHIN_S * LOAD
    first.thaw()
    await first.until(leads=False)
    await asyncio.sleep(2 * EVERY_S)
    assert second.leads
    assert not first.leads
    assert_one_leader_at_a_time(first, second)


async def test_a_leader_that_is_cut_from_the_store_ends_before_the_other_begins(
    stand, room, postgres
):
    async with Wire(postgres.port) as wire:
        first = await stand("first", room.replace(f":{postgres.port}/", f":{wire.port}/"))
        await first.until(leads=True)
        second = await stand("second", room)
        await asyncio.sleep(2 * EVERY_S)
        cut_at = time.monotonic()
        wire.cut()
        assert await second.until(leads=True) - cut_at < WITHIN_S * LOAD
        assert not first.leads
        wire.mend()
        await asyncio.sleep(4 * EVERY_S)
        assert second.leads
        assert not first.leads
        assert_one_leader_at_a_time(first, second)


async def test_a_store_that_stands_still_makes_nobody_a_second_leader(stand, postgres, room):
    first = await stand("first", room)
    await first.until(leads=True)
    second = await stand("second", room)
    await asyncio.sleep(2 * EVERY_S)
    postgres.signal(signal.SIGSTOP)
    try:
        await first.until(leads=False)
        await asyncio.sleep(EVERY_S)
        assert not second.leads
    finally:
        postgres.signal(signal.SIGCONT)
    leads = {asyncio.create_task(c.until(leads=True)) for c in (first, second)}
    done, left = await asyncio.wait(leads, return_when=asyncio.FIRST_COMPLETED, timeout=30)
    for task in left:
        task.cancel()
    assert done
    assert_one_leader_at_a_time(first, second)


async def test_a_killed_lone_server_on_a_file_leads_again_at_once(tmp_path):
    store, ttl_s = str(tmp_path / "store.db"), 60.0
    async with electorate(ttl_s=ttl_s, every_s=EVERY_S) as stand:
        first = await stand("first", store)
        await first.until(leads=True)
        first.kill()
        await first.ended()
        killed_at = time.monotonic()
        second = await stand("second", store)
        assert await second.until(leads=True) - killed_at < ttl_s / 2
        assert [reign[2] for reign in second.reigns()] == [2]


async def test_a_second_server_on_the_same_file_stands_by(stand, tmp_path):
    store = str(tmp_path / "store.db")
    first = await stand("first", store)
    await first.until(leads=True)
    second = await stand("second", store)
    await asyncio.sleep(TTL_S)
    assert not second.said
    first.process.terminate()
    await second.until(leads=True)
    assert_one_leader_at_a_time(first, second)
