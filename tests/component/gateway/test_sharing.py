"""How requests at the same time are shared among engines, as the engines see it."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.looked_at import LookedAt
from tests.fakes.raw_client import post
from tests.fakes.upstream import Do, whole

pytestmark = ON_ONE_LOOP


def figures(*, running, waiting):
    page = b"vllm:num_requests_running %d\nvllm:num_requests_waiting %d\n"
    return page % (running, waiting) + b"vllm:request_success_total 3\n"


IDLE = figures(running=0, waiting=0)


@pytest.fixture
async def looked_at(stage):
    """Starts engines that say of themselves what the test says."""
    engines = []

    async def start(count, metrics=IDLE):
        for _ in range(count):
            engines.append(engine := await LookedAt(metrics).start())
            stage.list_endpoint(f"e{len(engines)}", engine.url)
        await stage.client()
        await stage.until(lambda: stale(stage) == 0)
        return engines

    yield start
    for engine in engines:
        await engine.close()


def stale(stage):
    return sum(one.value for one in named(stage, "llmgw_endpoint_metrics_stale"))


def named(stage, name):
    return [one for one in stage.gateway.figures() if one.name == name]


def depth(stage):
    return sum(stage.stats.admission.depths.values())


def reserved(stage):
    return {live.facts.endpoint_id: live.seat.reserved for live in stage.gateway._registry.all()}


def inflight(stage):
    return {one.endpoint_id: one.inflight for one in stage.stats.endpoints}


async def test_thirty_requests_at_once_are_shared_by_weight(stage):
    heavy = await stage.engine("e1", weight=2.0)
    light = await stage.engine("e2", weight=1.0)
    release = asyncio.Event()
    for engine in (heavy, light):
        engine.always(release, whole())
    clients = [await stage.send(post(ASK)) for _ in range(30)]
    await stage.until(lambda: len(heavy.requests) + len(light.requests) == 30)
    assert len(heavy.requests) == pytest.approx(20, abs=2)
    assert inflight(stage) == {"e1": len(heavy.requests), "e2": len(light.requests)}
    release.set()
    assert {(await client.answer()).status for client in clients} == {200}


async def test_burst_of_a_hundred_between_two_looks_goes_to_all_engines(stage, looked_at):
    stage.tune(scrape_interval=2)
    engines = await looked_at(4)
    clients = [await stage.send(post(ASK)) for _ in range(100)]
    await stage.until(lambda: sum(engine.asked for engine in engines) == 100)
    assert max(engine.asked for engine in engines) <= 30
    for engine in engines:
        engine.works.set()
    assert {(await client.answer()).status for client in clients} == {200}


async def test_engine_takes_as_many_as_it_was_seen_to_run_and_none_waits(stage, looked_at):
    """It was full with 32 once, so 32 are no queue; four more are what it may have waiting."""
    stage.tune(scrape_interval=0.05)
    [engine] = await looked_at(1, figures(running=32, waiting=9))
    engine.metrics = IDLE
    await engine.looked_at(3)
    clients = [await stage.send(post(ASK)) for _ in range(32)]
    await engine.has_request(32)
    assert depth(stage) == 0
    assert [one.value for one in named(stage, "llmgw_pool_saturation")] == [0]
    clients += [await stage.send(post(ASK)) for _ in range(8)]
    await engine.has_request(36)
    await stage.until(lambda: depth(stage) == 4)
    engine.works.set()
    assert {(await client.answer()).status for client in clients} == {200}


async def test_room_for_one_lets_one_of_many_through(stage, looked_at):
    stage.tune(scrape_interval=0.6)
    [engine] = await looked_at(1, figures(running=1, waiting=4))
    clients = [await stage.send(post(ASK)) for _ in range(5)]
    await stage.until(lambda: depth(stage) == 5)
    engine.metrics = figures(running=1, waiting=3)
    await engine.has_request()
    engine.metrics = figures(running=1, waiting=4)  # the one that was let through among them
    await engine.looked_at(3)
    assert (engine.asked, depth(stage)) == (1, 4)
    engine.metrics = IDLE
    engine.works.set()
    assert {(await client.answer()).status for client in clients} == {200}


async def test_reservation_moves_with_the_attempt_and_is_gone_between_rounds(stage):
    first = await stage.engine("e1", priority=1)
    second = await stage.engine("e2")
    go_on = [asyncio.Event(), asyncio.Event()]
    first.always(go_on[0], whole(status=500))
    second.always(go_on[1], whole(status=500))
    client = await stage.send(post(ASK))
    await first.asked()
    assert (inflight(stage), reserved(stage)) == ({"e1": 1, "e2": 0}, {"e1": 1, "e2": 0})
    go_on[0].set()
    await second.asked()
    assert (inflight(stage), reserved(stage)) == ({"e1": 0, "e2": 1}, {"e1": 0, "e2": 1})
    first.always(Do.HOLD)
    go_on[1].set()
    await stage.until(lambda: stage.failed_attempts == {"status_500": 2})
    assert (inflight(stage), reserved(stage)) == ({"e1": 0, "e2": 0}, {"e1": 0, "e2": 0})
    assert stage.stats.totals.inflight == 1
    await first.asked(2)
    assert (inflight(stage), reserved(stage)) == ({"e1": 1, "e2": 0}, {"e1": 1, "e2": 0})
    client.leave()
