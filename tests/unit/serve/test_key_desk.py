"""What the workers of a host are told of a key, and what is counted from where."""

from __future__ import annotations

import pytest

from llmgw.accounting.host_limits import Spending
from llmgw.errors import KeyUnknown, Unreachable
from llmgw.serve.key_desk import KeyDesk
from tests.fakes.clock import FakeClock
from tests.fakes.principals import principal

OWNER = principal(org_limits={"rpm": 5}, key_limits={"budget": 100})


class Store:
    """Owners, stamps and spending as a desk asks for them; ``is_away`` while none can be told."""

    def __init__(self):
        self.owners = {"hash": OWNER}
        self.is_away = False
        self.stamps = {}
        self.spent = {"key:k1": Spending(1, 2, 3)}
        self.asked = 0

    def look(self):
        if self.is_away:
            raise Unreachable("the store does not answer")

    async def principal_of(self, key_hash):
        self.look()
        if key_hash not in self.owners:
            raise KeyUnknown("nobody has it")
        return self.owners[key_hash]

    async def touch(self, used_at):
        self.look()
        self.stamps.update(used_at)

    async def spendings(self, *, now):
        self.look()
        self.asked += 1
        return self.spent

    async def caught_up(self):
        return True


class Slots:
    """The counters that have a slot, in the order in which they got it."""

    def __init__(self):
        self.counters = {}

    def slot_of(self, counter):
        return list(self.counters).index(counter) if counter in self.counters else None

    def allot(self, counter, spending, *, now):
        self.counters[counter] = spending


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def desk(store, clock):
    desk = KeyDesk(
        store, stamps=store, spendings=store.spendings, caught_up=store.caught_up, clock=clock
    )
    desk.slots = Slots()
    return desk


async def test_owner_comes_with_the_slots_of_what_limits_it(desk):
    answer = await desk.answer("hash")
    assert (answer.outcome, answer.principal) == ("known", OWNER)
    assert answer.slots == {"org:o1": 0, "key:k1": 1}


async def test_counter_begins_with_what_was_spent_before_and_is_read_once(desk, store):
    await desk.answer("hash")
    await desk.answer("hash")
    assert desk.slots.counters == {"org:o1": Spending(), "key:k1": Spending(1, 2, 3)}
    assert store.asked == 1


async def test_only_who_knows_that_nobody_has_a_key_says_so(desk, store):
    assert (await desk.answer("other")).outcome == "unknown"
    store.is_away = True
    assert (await desk.answer("other")).outcome == "unavailable"
    assert (await desk.answer("hash")).outcome == "unavailable"


async def test_when_keys_were_used_is_kept_also_after_the_store_was_away(desk, store, clock):
    await desk.answer("hash")
    store.is_away = True
    await desk.close()
    assert store.stamps == {}
    store.is_away = False
    await desk.close()
    assert store.stamps == {"k1": clock.wall()}
