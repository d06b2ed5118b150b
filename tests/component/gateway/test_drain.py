"""A gateway that stops: says so, takes no more, lets requests end, cuts what is left."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import End, RawClient, get, post
from tests.fakes.upstream import DONE, END, EVENTS, Do, chunk, event, whole


@pytest.fixture
async def drain(stage):
    """Starts to drain and returns the task of it."""
    tasks = []

    def begin(grace_s=5.0, *, delay_s=0.0):
        task = asyncio.create_task(stage.gateway.drain(grace_s, delay_s=delay_s))
        tasks.append(task)
        return task

    yield begin
    await asyncio.wait(tasks)


async def test_requests_under_way_end_before_the_gateway_does(stage, drain):
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.once(EVENTS + chunk(event("a")), go_on, chunk(DONE) + END)
    engine.once(go_on, whole(b"late"))
    begun = await stage.send(post(ASK))
    await begun.got(event("a"))
    waiting = await stage.send(post(ASK))
    await engine.asked(2)
    draining = drain()
    await asyncio.sleep(0.05)
    assert not draining.done()
    go_on.set()
    assert (await begun.answer()).body.endswith(DONE)
    answer = await waiting.answer()
    assert (answer.body, answer["connection"]) == (b"late", "close")
    ends = [await client.end(within_s=2) for client in (begun, waiting)]
    assert ends == [End.CLOSED] * 2
    await asyncio.wait_for(draining, 2)
    assert stage.states == {"completed": 2}


async def test_idle_connections_are_closed_and_no_new_ones_taken(stage, drain):
    engine = await stage.engine()
    go_on = asyncio.Event()
    idle = await stage.send(get("/health"))
    await idle.answer()
    engine.always(go_on, whole())
    busy = await stage.send(post(ASK))
    await engine.asked()
    drain()
    assert await idle.end() is End.CLOSED
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await RawClient.connect(stage.port)
    go_on.set()
    assert (await busy.answer()).status == 200


async def test_for_a_while_it_is_not_ready_and_serves_on(stage, drain):
    await stage.engine()
    client = await stage.client()
    drain(delay_s=0.3)
    await asyncio.sleep(0)
    client.send(get("/ready"))
    answer = await client.answer()
    assert (answer.status, answer.json["reasons"]) == (503, ["stopping"])
    client.send(get("/health"))
    assert (await client.answer()).status == 200
    assert (await stage.ask()).status == 200


async def test_request_that_was_half_sent_is_answered(stage, drain):
    await stage.engine()
    request = post(ASK)
    client = await stage.send(request[:40])
    await stage.until(lambda: stage.stats.connections == 1)
    await asyncio.sleep(0.02)
    drain()
    await asyncio.sleep(0.02)
    client.send(request[40:])
    answer = await client.answer()
    assert (answer.status, answer["connection"]) == (200, "close")
    assert await client.end() is End.CLOSED


async def test_what_does_not_end_in_time_is_cut_and_told(stage, drain):
    """Row 24: a 503 before the first byte, a break after it; cancelled, nobody's fault."""
    stage.tune(breaker={"failure_threshold": 1})
    engine = await stage.engine()
    engine.once(EVENTS + chunk(event("a")), Do.HOLD)
    engine.once(Do.HOLD)
    engine.once(whole(b"no", status=500))
    begun = await stage.send(post(ASK))
    await begun.got(event("a"))
    waiting = await stage.send(post(ASK))
    await engine.asked(2)
    half_sent = await stage.send(post(ASK)[:-1])
    await stage.until(lambda: stage.stats.connections == 3)
    draining = drain(0.1)
    answer = await waiting.answer()
    assert (answer.status, answer.code, answer["retry-after"]) == (503, "shutting_down", "1")
    answer = await begun.answer()
    assert not answer.is_complete
    assert b'"code":"shutting_down"' in answer.body
    assert b"DONE" not in answer.body
    for client in (begun, waiting, half_sent):
        assert await client.end() is not None
    await asyncio.wait_for(draining, 3)
    assert stage.states == {"cancelled": 2}
    assert not stage.endpoint_stats().is_breaker_open
    await engine.aborted(2)


async def test_requests_sent_ahead_are_answered_before_the_end(stage, drain):
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.once(EVENTS + chunk(event("a")), go_on, chunk(DONE) + END)
    client = await stage.send(post(ASK) + post(ASK))
    await client.got(event("a"))
    drain()
    await asyncio.sleep(0.02)
    go_on.set()
    assert (await client.answer())["connection"] is None
    assert (await client.answer())["connection"] == "close"
    assert await client.end(within_s=2) is End.CLOSED


async def test_request_between_rounds_is_told_at_the_end(stage, drain):
    engine = await stage.engine(answer=whole(status=500))
    client = await stage.send(post(ASK))
    await engine.asked()
    drain(0.05)
    answer = await client.answer()
    assert (answer.status, answer.code) == (503, "shutting_down")
    assert stage.states == {"cancelled": 1}


@ON_ONE_LOOP
async def test_client_that_does_not_read_cannot_hold_the_end_up(stage, drain):
    engine = await stage.engine()
    engine.always(EVENTS, chunk(b"x" * 30_000_000), Do.HOLD)
    client = await stage.client()
    client.stop_reading()
    client.send(post(ASK))
    await engine.asked()
    await asyncio.sleep(0.1)
    draining = drain(0.05)
    await asyncio.wait_for(draining, 10)
    assert stage.stats.connections == 0


async def test_close_ends_everything_at_once_and_may_be_called_again(stage):
    engine = await stage.engine()
    engine.always(EVENTS + chunk(event("a")), Do.HOLD)
    client = await stage.send(post(ASK))
    await client.got(event("a"))
    await asyncio.wait_for(stage.gateway.close(), 2)
    await client.end()
    await engine.aborted()
    assert stage.states == {"cancelled": 1}
    await stage.gateway.close()
    stage.publish()
    assert stage.stats.connections == 0


async def test_second_connection_of_a_drain_that_was_hurried_ends_at_once(stage, drain):
    """``close`` during ``drain``: what a second signal does."""
    engine = await stage.engine()
    engine.always(Do.HOLD)
    client = await stage.send(post(ASK))
    await engine.asked()
    draining = drain(60)
    await asyncio.sleep(0.02)
    await asyncio.wait_for(stage.gateway.close(), 2)
    await asyncio.wait_for(draining, 2)
    assert await client.end() is not None
    await engine.aborted()
