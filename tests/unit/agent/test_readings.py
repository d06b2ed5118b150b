"""What a heartbeat is made from."""

from __future__ import annotations

from llmgw.agent.readings import Readings
from llmgw.domain.work import ShardWork
from tests.fakes.agent_parts import FakeFacts

WORK = (ShardWork("demo-1.0", cpu_time_s=1.5),)


class FakeWorkers:
    async def work(self):
        return WORK


async def test_a_heartbeat_tells_what_shards_have_done_beside_what_the_machine_says():
    facts = FakeFacts()
    readings = Readings(facts, workers=FakeWorkers())
    beat = await readings.refresh()
    assert (beat.shard_work, beat.storage) == (WORK, facts.reading.storage)
    assert await readings.facts() == facts.node
