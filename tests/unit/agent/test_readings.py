"""What a heartbeat is made from."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from llmgw.agent.readings import Readings
from llmgw.domain.fetch_status import FetchState, FetchStatus
from llmgw.domain.nodes import HeartbeatFacts
from llmgw.domain.work import ShardWork
from llmgw.errors import DiscoveryFailed
from tests.fakes.agent_parts import FakeFacts

WORK = (ShardWork("demo-1.0", cpu_time_s=1.5),)
FETCHES = (FetchStatus("hf:org/model", "0123-model", FetchState.FETCHING, done_bytes=5),)
BESIDE = {"shard_work": WORK, "fetches": FETCHES}


class FakeWorkers:
    async def work(self):
        return WORK

    def fetches(self):
        return FETCHES


class SlowFacts:
    """A machine that answers when it is let."""

    def __init__(self):
        self.may_answer = asyncio.Event()
        self.asked = 0

    async def refresh(self):
        self.asked += 1
        await self.may_answer.wait()
        return HeartbeatFacts(memory_total_mb=7)


async def test_a_heartbeat_tells_what_shards_have_done_beside_what_the_machine_says():
    facts = FakeFacts()
    readings = Readings(facts, workers=FakeWorkers(), patience_s=10)
    beat = await readings.refresh()
    assert (beat.shard_work, beat.storage) == (WORK, facts.reading.storage)
    assert beat.fetches == FETCHES
    assert await readings.facts() == replace(facts.node, fetches=FETCHES)


async def test_a_machine_that_answers_late_keeps_no_work_back_and_is_heard_in_the_next_beat():
    machine = SlowFacts()
    readings = Readings(machine, workers=FakeWorkers(), patience_s=0.01)
    for _ in range(2):
        assert await readings.refresh() == HeartbeatFacts(**BESIDE)
    machine.may_answer.set()
    assert await readings.refresh() == HeartbeatFacts(**BESIDE, memory_total_mb=7)
    assert machine.asked == 1


async def test_a_machine_that_cannot_be_read_keeps_no_work_back():
    class Broken:
        async def refresh(self):
            raise DiscoveryFailed("no sensors")

    readings = Readings(Broken(), workers=FakeWorkers(), patience_s=10)
    assert await readings.refresh() == HeartbeatFacts(**BESIDE)


async def test_closed_readings_leave_no_look_behind():
    machine = SlowFacts()
    readings = Readings(machine, workers=FakeWorkers(), patience_s=0.01)
    await readings.refresh()
    (look,) = (one for one in asyncio.all_tasks() if one.get_name() == "readings.machine")
    await readings.close()
    with pytest.raises(asyncio.CancelledError):
        await look
