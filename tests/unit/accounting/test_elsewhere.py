"""What other hosts spend is counted here too, once, and what was spent here is not."""

from __future__ import annotations

import pytest

from llmgw.accounting.elsewhere import Elsewhere
from llmgw.domain.pricing import FREE
from llmgw.domain.usage_reports import Spend
from llmgw.domain.usage_rows import UsageRow
from tests.fakes.clock import FakeClock


def row(micros, key_id="k1"):
    return UsageRow(
        request_id="r",
        at=0.0,
        key_id=key_id,
        user_id=None,
        project_id="p1",
        model="m",
        served_model="m",
        endpoint="e",
        node_id="n",
        prompt_tokens=0,
        completion_tokens=0,
        cached_tokens=None,
        cost_micros=micros,
        price=FREE,
        outcome="finished",
        is_estimated=False,
        status=200,
        ttft_ms=None,
        latency_ms=None,
    )


class Store:
    """The one store of all hosts: what each key has spent today."""

    def __init__(self):
        self.micros = {}

    async def write(self, rows):
        for one in rows:
            self.spend(one.cost_micros, one.key_id)
        return len(rows)

    def spend(self, micros, key_id="k1"):
        self.micros[key_id] = self.micros.get(key_id, 0) + micros

    async def spent(self, *, since):
        return [Spend(key, "p1", "t1", "o1", micros=spent) for key, spent in self.micros.items()]


class Board:
    """What this host counts."""

    def __init__(self, *counters):
        self.counters = set(counters)
        self.spent = {}

    def spend(self, counter, micros, *, now):
        if counter in self.counters:
            self.spent[counter] = self.spent.get(counter, 0) + micros


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def site(clock):
    store = Store()
    here = Elsewhere(store, sums=store, clock=clock)
    here.board = Board("key:k1", "org:o1")
    await here.look()
    return store, here


async def test_what_others_spend_is_counted_once_at_each_level_that_is_counted_here(site):
    store, here = site
    store.spend(70)
    store.spend(30, "k2")
    for _ in range(3):
        await here.look()
    assert here.board.spent == {"key:k1": 70, "org:o1": 100}


async def test_what_was_spent_here_is_not_counted_again(site):
    store, here = site
    await here.write([row(50), row(25)])
    store.spend(10)
    await here.look()
    await here.write([row(5)])
    await here.look()
    assert here.board.spent == {"key:k1": 10, "org:o1": 10}


async def test_place_that_is_new_here_has_it_from_the_store_already(site):
    store, here = site
    store.spend(40)
    spendings = await here.spendings(now=0.0)
    here.board.counters.add("team:t1")
    assert spendings["team:t1"].total == 40
    store.spend(2)
    await here.look()
    assert here.board.spent == {"key:k1": 42, "org:o1": 42, "team:t1": 2}


async def test_day_that_begins_is_not_taken_for_spending(site, clock):
    store, here = site
    store.spend(40)
    await here.look()
    clock.advance(86_400)
    store.micros.clear()
    store.spend(7)
    await here.look()
    store.spend(3)
    await here.look()
    assert here.board.spent["key:k1"] == 43
