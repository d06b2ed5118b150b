"""Once engines are full, requests wait by their band, and nobody else does."""

from __future__ import annotations

import asyncio
import statistics

import pytest

from llmgw.config.entering import BandSettings
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.looked_at import LookedAt
from tests.fakes.raw_client import post
from tests.fakes.slotted import Slotted
from tests.fakes.upstream import whole

pytestmark = ON_ONE_LOOP

FULL = b"vllm:num_requests_running 1\nvllm:num_requests_waiting 9\nvllm:request_success_total 3\n"
EMPTY = b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:request_success_total 3\n"
BRONZE, GOLD = "x-llmgw-band: bronze", "x-llmgw-band: gold"


@pytest.fixture
async def full_engine(stage):
    """An engine that has said it is full; it answers whatever it gets."""
    stage.tune(scrape_interval=0.05)
    engine = await LookedAt(FULL).start()
    engine.works.set()
    stage.list_endpoint("e1", engine.url)

    async def is_known():
        await stage.client()
        await stage.until(lambda: waiting(stage) == 9)
        return engine

    yield is_known
    await engine.close()


def waiting(stage):
    [one] = [one for one in stage.gateway.figures() if one.name == "llmgw_endpoint_waiting"] or [
        None
    ]
    return one and one.value


def depth(stage):
    return sum(stage.stats.admission.depths.values())


async def test_request_waits_while_engines_are_full_and_goes_once_they_have_room(
    stage, full_engine
):
    engine = await full_engine()
    client = await stage.send(post(ASK))
    await stage.until(lambda: depth(stage) == 1)
    await engine.looked_at(3)
    assert engine.asked == 0
    engine.metrics = EMPTY
    answer = await client.answer()
    assert (answer.status, int(answer["x-llmgw-queue-ms"]) > 50) == (200, True)
    assert stage.stats.admission.depths == {}


async def test_engine_that_never_let_a_request_wait_is_not_taken_for_full(stage):
    """Forty at once where a guess would say eight: nobody waits for a guess."""
    release = asyncio.Event()
    engine = await stage.engine()
    engine.always(release, whole())
    clients = [await stage.send(post(ASK)) for _ in range(40)]
    await engine.asked(40)
    assert depth(stage) == 0
    release.set()
    assert {(await client.answer()).status for client in clients} == {200}


async def test_waiter_whose_client_leaves_never_reaches_an_engine(stage, full_engine):
    engine = await full_engine()
    client = await stage.send(post(ASK))
    await stage.until(lambda: depth(stage) == 1)
    client.leave()
    await stage.until(lambda: depth(stage) == 0)
    assert stage.states == {"cancelled": 1}
    engine.metrics = EMPTY
    await engine.looked_at(4)
    assert engine.asked == 0


async def test_nobody_waits_longer_than_its_band_may(stage, full_engine):
    stage.let_in(bands=(BandSettings(name="gold", max_wait_s=0.4),))
    await full_engine()
    began_at = asyncio.get_running_loop().time()
    answer = await stage.ask()
    assert (answer.status, answer.code, answer["retry-after"]) == (429, "overloaded", "5")
    assert 0.4 <= asyncio.get_running_loop().time() - began_at < 2
    assert (answer["x-llmgw-attempts"], int(answer["x-llmgw-queue-ms"]) >= 400) == ("0", True)
    assert stage.stats.admission.rejected == {"gold": 1}
    assert stage.stats.totals.requests == {("m", 429): 1}


async def test_nobody_waits_beyond_the_time_in_which_attempts_may_begin(stage, full_engine):
    stage.tune(scrape_interval=0.05, dispatch={"deadline_s": 1.0})
    await full_engine()
    began_at = asyncio.get_running_loop().time()
    assert (await stage.ask()).code == "overloaded"
    assert asyncio.get_running_loop().time() - began_at < 3


async def test_full_line_gives_the_place_of_the_youngest_of_the_lowest_band_away(
    stage, full_engine
):
    stage.let_in(queue_max=2)
    engine = await full_engine()
    first = await stage.send(post(ASK, BRONZE))
    await stage.until(lambda: depth(stage) == 1)
    second = await stage.send(post(ASK, BRONZE))
    await stage.until(lambda: depth(stage) == 2)
    gold = await stage.send(post(ASK, GOLD))
    displaced = await second.answer()
    assert (displaced.status, displaced.code) == (429, "overloaded")
    assert displaced["retry-after"]
    third = await stage.ask(ASK, BRONZE)
    assert third.code == "overloaded", "a line that is full of others as urgent has no place"
    engine.metrics = EMPTY
    assert [(await one.answer()).status for one in (gold, first)] == [200, 200]
    assert stage.stats.admission.rejected["bronze"] == 2


async def test_between_its_ceiling_and_that_of_gold_bronze_waits_and_gold_passes(
    stage, full_engine
):
    engine = await full_engine()
    engine.metrics = EMPTY.replace(b"waiting 0", b"waiting 3")  # three of four: 0.75
    await stage.until(lambda: waiting(stage) == 3)
    bronze = await stage.send(post(ASK, BRONZE))
    await stage.until(lambda: depth(stage) == 1)
    assert (await stage.ask(ASK, GOLD)).status == 200
    assert (await stage.ask(ASK, "x-llmgw-band: platinum")).status == 200, "unknown is the default"
    assert depth(stage) == 1
    engine.metrics = EMPTY
    assert (await bronze.answer()).status == 200


async def test_with_admission_off_a_full_engine_gets_what_comes(stage, full_engine):
    stage.let_in(enabled=False)
    await full_engine()
    assert (await stage.ask()).status == 200
    assert stage.stats.admission.rejected == {"gold": 0, "silver": 0, "bronze": 0}


async def test_waiters_are_told_when_the_gateway_stops(stage, full_engine):
    await full_engine()
    client = await stage.send(post(ASK))
    await stage.until(lambda: depth(stage) == 1)
    drain = asyncio.create_task(stage.gateway.drain(0.1))
    assert (await client.answer()).code == "shutting_down"
    await drain
    assert stage.states == {"cancelled": 1}


async def test_waiter_whose_engines_all_leave_is_told_so(stage, full_engine):
    await full_engine()
    client = await stage.send(post(ASK))
    await stage.until(lambda: depth(stage) == 1)
    stage.drop_endpoint("e1")
    assert (await client.answer()).code == "no_endpoints"


async def test_half_of_the_waiters_leave_at_any_moment_and_nothing_remains(stage):
    stage.tune(scrape_interval=0.05)
    engine = await Slotted(slots=2, takes_s=0.005).start()
    stage.list_endpoint("e1", engine.url)
    try:
        clients = [await stage.send(post(ASK)) for _ in range(60)]
        for number, client in enumerate(clients[::2]):
            if number % 5 == 0:
                await asyncio.sleep(0.01)
            client.leave()
        for client in clients[1::2]:
            assert (await client.answer()).status == 200
        await stage.settled()
    finally:
        await engine.close()


async def gold_latencies(stage, *, crowd):
    """How long each of a few interactive requests takes while a crowd sends batch work."""

    async def flood():
        client = await stage.client()
        while True:
            client.send(post(ASK, BRONZE))
            assert (await client.answer(within_s=20)).status == 200

    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        flooding = [group.create_task(flood()) for _ in range(crowd)]
        await asyncio.sleep(1.5)
        latencies = []
        for _ in range(15):
            began_at = loop.time()
            assert (await stage.ask(ASK, GOLD)).status == 200
            latencies.append(loop.time() - began_at)
        for task in flooding:
            task.cancel()
    return latencies


@pytest.mark.parametrize("is_on", [True, False], ids=["held", "as it comes"])
async def test_flood_of_batch_work_does_not_starve_interactive_requests(stage, is_on):
    """Four slots of 40 ms and 64 batch clients: in the engine's own line, gold waits for all."""
    stage.tune(scrape_interval=0.1)
    stage.let_in(enabled=is_on)
    engine = await Slotted(slots=4, takes_s=0.04).start()
    stage.list_endpoint("e1", engine.url)
    try:
        latencies = await gold_latencies(stage, crowd=64)
        alone_s = 64 / 4 * 0.04
        print(f"median {statistics.median(latencies):.3f} s")  # noqa: T201 - seen with -s
        if is_on:
            assert statistics.quantiles(latencies, n=20)[-1] < 1.0
            assert statistics.median(latencies) < alone_s / 2
        else:
            assert statistics.median(latencies) > alone_s / 2
    finally:
        for client in stage._clients:
            client.leave()
        await stage.settled()
        await engine.close()


async def test_bands_are_the_operator_s(stage, full_engine):
    stage.let_in(
        bands=(BandSettings(name="high", ceiling=2.0), BandSettings(name="low", ceiling=0.5)),
        default_band="low",
        band_header="X-Band",
    )
    engine = await full_engine()
    engine.metrics = FULL.replace(b"waiting 9", b"waiting 5")
    await stage.until(lambda: waiting(stage) == 5)
    assert (await stage.ask(ASK, "x-band: high")).status == 200
    low = await stage.send(post(ASK))
    await stage.until(lambda: depth(stage) == 1)
    engine.metrics = EMPTY
    assert (await low.answer()).status == 200
