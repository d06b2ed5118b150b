"""On a file the lock beside it says who leads, also while the file cannot be written."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from llmgw.errors import LlmgwError
from tests.fakes.log_ear import heard

TTL_S = 1.0
OURS = {"owner": "a", "address": "a:9090", "ttl_s": TTL_S}
THEIRS = {"owner": "b", "address": "b:9090", "ttl_s": TTL_S}


@pytest.fixture
async def pair(tmp_path, opened, monkeypatch):
    """The leases of two servers on one file; the first leads."""
    monkeypatch.setattr("llmgw.store.database.BUSY_S", 0.5)
    first, second = [await opened(str(tmp_path / "store.db")) for _ in range(2)]
    held = await first.leases.take(**OURS)
    assert (held.owner, held.term) == ("a", 1)
    return first.leases, second.leases


async def test_behind_a_writer_that_does_not_end_the_lead_goes_on(pair, tmp_path):
    first, second = pair
    file = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    with closing(file) as other, heard("llmgw.store") as logged:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            held = await first.take(**OURS)
            assert (held.owner, held.term, held.left_s) == ("a", 1, TTL_S)
        assert (await second.take(**THEIRS)).owner == "a"
    assert [event for event, _ in logged].count("lease_held_by_its_lock_alone") == 1
    assert (await first.take(**OURS)).term == 1


async def test_a_store_that_is_broken_costs_nobody_the_lead_and_makes_no_second_leader(
    pair, tmp_path
):
    first, second = pair
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("DROP TABLE leases")
    assert (await first.take(**OURS)).owner == "a"
    with pytest.raises(LlmgwError):
        await second.take(**THEIRS)


async def test_a_term_that_agents_have_seen_is_not_led_below(pair, tmp_path):
    """Then the store was set back, and what it cannot say is not made up."""
    first, _ = pair
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("DROP TABLE leases")
    with pytest.raises(LlmgwError):
        await first.take(**OURS, above_term=7)
    assert (await first.take(**OURS)).term == 1


async def test_who_released_it_has_it_no_longer(pair, tmp_path):
    first, second = pair
    await first.release(owner="a")
    assert (await second.take(**THEIRS)).owner == "b"
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("DROP TABLE leases")
    with pytest.raises(LlmgwError):
        await first.take(**OURS)
