"""Looks at cards that take long, hang or come to many at once."""

import asyncio
import threading

import pytest

from llmgw.agent.discovery.card_looks import CardLooks
from llmgw.agent.discovery.card_watch import CardWatch
from llmgw.agent.discovery.findings import Cards
from llmgw.domain.nodes import Gpu

SEEN = Cards(gpus=(Gpu(index=0, uuid="u", name="NVIDIA H200"),), source="nvml")


@pytest.fixture
def gate():
    made = threading.Event()
    yield made
    made.set()


async def test_all_who_ask_at_once_share_one_look(clock, gate):
    taken = []

    def look():
        taken.append(1)
        gate.wait(10)
        return SEEN

    looks = CardLooks(look, clock=clock)
    asking = [asyncio.create_task(looks.now(wait_s=5)) for _ in range(3)]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*asking) == [SEEN] * 3
    assert len(taken) == 1


async def test_who_leaves_while_a_look_lasts_does_not_end_it(clock, gate):
    looks = CardLooks(lambda: gate.wait(10) and SEEN, clock=clock)
    asking = asyncio.create_task(looks.now(wait_s=5))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait({asking})
    gate.set()
    assert await looks.now(wait_s=5) == SEEN


async def test_a_look_that_hangs_is_a_failure_and_three_of_them_put_the_cards_out_of_use(
    clock, gate
):
    watch = CardWatch()
    watch.take(SEEN)
    looks = CardLooks(lambda: gate.wait(10) and SEEN, clock=clock, give_up_s=0.02)
    told = [watch.take(await looks.now(wait_s=5)) for _ in range(3)]
    assert told[:2] == [None, None]
    assert [gpu.problems for gpu in told[2]] == [("it cannot be read: reading the cards hangs",)]
