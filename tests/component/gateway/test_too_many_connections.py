"""A process that may open no more files says so, blames no engine and goes on accepting."""

from __future__ import annotations

import contextlib
import os
import resource

import pytest

from llmgw.gateway.doors import Doors
from tests.fakes.clock import FakeClock
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import End, get, post
from tests.fakes.upstream import Do, whole


@contextlib.contextmanager
def no_more_files():
    """Whatever this process would open now fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
async def crowded(stage):
    """A gateway that takes ten clients."""
    await stage.start()
    crowd = stage.gateway._reception.crowd
    crowd.most, crowd._many = 10, 9
    return stage


async def test_client_beyond_the_bound_is_told_to_come_again_and_others_are_served(crowded):
    engine = await crowded.engine()
    engine.always(Do.HOLD)
    busy = [await crowded.send(post(ASK)) for _ in range(10)]
    await engine.asked(10)
    for _ in range(3):
        client = await crowded.send(get("/health"))
        answer = await client.answer()
        assert (answer.status, answer.code) == (503, "too_many_connections")
        assert (answer["retry-after"], answer["connection"]) == ("1", "close")
        assert await client.end() is End.CLOSED
    assert crowded.stats.refused_connections == 3
    busy.pop().leave()
    await crowded.until(lambda: crowded.stats.connections <= 9)
    assert (await (await crowded.send(get("/health"))).answer()).status == 200
    assert [client.ended for client in busy] == [None] * 9


@ON_ONE_LOOP
async def test_who_was_idle_for_longest_leaves_for_who_comes(stage):
    stage.clock = clock = FakeClock()
    engine = await stage.engine()
    engine.always(Do.HOLD)
    busy = await stage.send(post(ASK))
    await engine.asked()
    reception = stage.gateway._reception
    reception.crowd.most, reception.crowd._many = 10, 5
    begun = await stage.send(b"POST /v1/chat")
    idle = []
    for _ in range(3):
        idle.append(await stage.send(get("/health")))
        await idle[-1].answer()
        clock.advance(3)
        await stage.until(lambda: reception.looked_at == clock.monotonic())
    for gone in range(2):
        newest = await stage.send(get("/health"))
        assert (await newest.answer()).status == 200
        assert await idle[gone].end() is End.CLOSED
    assert [client.ended for client in (busy, begun, idle[2])] == [None] * 3
    assert stage.stats.refused_connections == 0


@ON_ONE_LOOP
async def test_who_came_just_now_leaves_for_nobody(crowded):
    """It is about to ask: 400 that come at once must not close one another's connections."""
    new = [await crowded.client() for _ in range(10)]
    late = [await crowded.send(get("/health")) for _ in range(5)]
    assert [(await client.answer()).status for client in late] == [503] * 5
    for client in new:
        client.send(get("/health"))
    assert [(await client.answer()).status for client in new] == [200] * 10


async def test_bound_is_half_of_what_may_be_open(stage):
    stage.doors = Doors(most_files=1024)
    await stage.start()
    assert stage.stats.most_connections == 480


async def test_last_files_are_kept_for_telling_clients_that_there_are_none(stage):
    """The number of a connection's file tells how many are open, whoever has opened them."""
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    stage.doors = Doors(most_files=lowest + 20)
    client = await stage.send(get("/health"))
    answer = await client.answer()
    assert (answer.status, answer.code) == (503, "too_many_connections")
    assert await client.end() is End.CLOSED


async def test_engine_is_not_blamed_when_no_file_is_left_for_it(stage):
    stage.tune(breaker={"failure_threshold": 1})
    engine = await stage.engine()
    client = await stage.client()
    with no_more_files():
        client.send(post(ASK))
        answer = await client.answer()
    assert (answer.status, answer.code, answer["retry-after"]) == (503, "too_many_connections", "1")
    assert stage.failed_attempts == {"no_files": 1}
    assert not stage.endpoint_stats().is_breaker_open
    assert stage.stats.missing_files == 1
    client.send(post(ASK))
    assert (await client.answer()).status == 200
    assert engine.connections == 1


async def test_connection_that_nobody_uses_makes_room_for_one_that_is_needed(stage):
    stage.list_model("other")
    engine = await stage.engine("e1")
    engine.always(0.05, whole(b"one"))
    await stage.engine("e2", answer=whole(b"two"), models=("other",))
    clients = [await stage.send(post(ASK)) for _ in range(4)]
    for client in clients:
        await client.answer()
    await stage.until(lambda: stage.endpoint_stats("e1").idle_connections == 4)
    with no_more_files():
        client.send(post({**ASK, "model": "other"}))
        answer = await client.answer()
    assert (answer.status, answer.body) == (200, b"two")
    assert stage.endpoint_stats("e1").idle_connections == 0


async def test_endpoint_that_could_not_be_asked_is_not_taken_out_of_use(stage):
    stage.tune(scrape_interval=0.05)
    await stage.engine()
    await stage.start()
    [live] = stage.gateway._registry.all()
    with no_more_files():
        await stage.until(lambda: stage.stats.missing_files >= 2)
        before = live.failed_looks
        await stage.until(lambda: stage.stats.missing_files >= 4)
        assert live.failed_looks == before
    assert not live.is_ejected


async def test_large_heads_without_an_end_are_kept_for_so_many_clients_and_no_more(stage):
    """Of one that comes slowly up to 64 KiB are held, and nobody has to be known for that."""
    await stage.start()
    stage.gateway._reception.crowd.most_large_heads = 2
    begun = b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20_000
    first, second = await stage.send(begun), await stage.send(begun)
    await stage.until(lambda: len(stage.gateway._reception.crowd._with_large_heads) == 2)
    third = await stage.send(begun)
    answer = await third.answer()
    assert (answer.status, answer.code) == (503, "memory_pressure")
    small = await stage.send(get("/health"))
    assert (await small.answer()).status == 200
    first.send(b"\r\n\r\n")
    assert (await first.answer()).status == 200
    fourth = await stage.send(begun)
    fourth.send(b"\r\n\r\n")
    assert (await fourth.answer()).status == 200
    assert second.ended is None
