"""What is kept of rolls, on each database."""

from __future__ import annotations

import pytest

from llmgw.domain.stored import StoredRoll
from llmgw.errors import Standby

ROLL = StoredRoll("chat", begun_at=1_764_500_000.125, may_interrupt=True, actor="ann")


async def test_a_roll_is_read_as_it_was_written(store):
    await store.rolls.put(ROLL)
    assert await store.rolls.all() == [ROLL]


async def test_a_roll_survives_a_restart(address, opened):
    before = await opened(address)
    await before.rolls.put(ROLL)
    await before.close()
    assert await (await opened(address)).rolls.all() == [ROLL]


async def test_a_model_has_one_roll_and_the_next_takes_its_place(store):
    await store.rolls.put(ROLL)
    await store.rolls.halt("chat", reason="it failed")
    await store.rolls.halt("other", reason="it is not there")
    (halted,) = await store.rolls.all()
    assert halted.halted == "it failed"
    await store.rolls.put(StoredRoll("chat", begun_at=9.0))
    await store.rolls.put(StoredRoll("audio", begun_at=8.0))
    assert await store.rolls.all() == [
        StoredRoll("audio", begun_at=8.0),
        StoredRoll("chat", begun_at=9.0),
    ]


async def test_a_roll_that_ended_is_gone_and_ends_once(store):
    await store.rolls.put(ROLL)
    await store.rolls.end("chat")
    await store.rolls.end("chat")
    assert await store.rolls.all() == []


async def test_who_leads_no_more_changes_no_roll(store):
    await store.leases.take(owner="a", address="a:9090", ttl_s=60)
    await store.rolls.put(ROLL, owner="a")
    for change in (
        store.rolls.put(StoredRoll("other", begun_at=1.0), owner="b"),
        store.rolls.halt("chat", reason="x", owner="b"),
        store.rolls.end("chat", owner="b"),
    ):
        with pytest.raises(Standby, match="leads no more"):
            await change
    assert await store.rolls.all() == [ROLL]
