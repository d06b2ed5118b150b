"""A client that leaves: its engine learns it at once, nothing is left behind, nobody is blamed."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.gateway_stage import ASK
from tests.fakes.mischief import BlackHole
from tests.fakes.raw_client import post
from tests.fakes.upstream import CHUNKED, END, EVENTS, Do, chunk, event, head, whole

WITHIN_S = 0.9
"""What a busy machine may make of 100 ms; ``tests/e2e/test_aborts.py`` holds those."""

STAGES = {
    "before any answer": (),
    "within the head": (b"HTTP/1.1 200 OK\r\n",),
    "after the head": (CHUNKED,),
    "after a chunk's size": (CHUNKED + b"5\r\n",),
    "after the head of an announced length": (head(200, "Content-Length: 100"),),
}


def leave(client):
    client.leave()


def reset(client):
    client.reset()


@pytest.fixture(params=[leave, reset], ids=["closes", "resets"])
def go_away(request):
    """How a client leaves."""
    return request.param


def now():
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("steps", STAGES.values(), ids=STAGES.keys())
async def test_client_that_leaves_before_the_first_byte_ends_its_attempt(stage, steps, go_away):
    """Row 22: no retry, no blame, the engine's connection closed within 100 ms."""
    stage.tune(breaker={"failure_threshold": 1})
    engine = await stage.engine()
    other = await stage.engine("e2", priority=-1)
    engine.always(*steps, Do.HOLD)
    client = await stage.send(post(ASK))
    await engine.asked()
    await asyncio.sleep(0.02)
    left_at = now()
    go_away(client)
    assert await engine.aborted() - left_at < WITHIN_S
    await stage.settled()
    assert stage.states == {"cancelled": 1}
    assert stage.stats.totals.requests == {("m", 499): 1}
    assert stage.failed_attempts == {}
    assert not stage.endpoint_stats().is_breaker_open
    assert other.connections == 0


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(EVENTS + chunk(event("a")), id="a stream"),
        pytest.param(CHUNKED + chunk(b"part"), id="chunks"),
        pytest.param(head(200, "Content-Length: 100") + b"part", id="an announced length"),
        pytest.param(head(200) + b"part", id="an answer until the close"),
    ],
)
async def test_client_that_leaves_in_the_middle_of_an_answer_ends_it(stage, begin, go_away):
    """Row 23."""
    stage.tune(breaker={"failure_threshold": 1})
    engine = await stage.engine()
    engine.always(begin, Do.HOLD)
    client = await stage.send(post(ASK))
    await client.got(b"\r\n\r\n")
    left_at = now()
    go_away(client)
    assert await engine.aborted() - left_at < WITHIN_S
    await stage.settled()
    assert stage.states == {"cancelled": 1}
    assert stage.stats.totals.truncated == 0
    assert not stage.endpoint_stats().is_breaker_open


async def test_client_that_leaves_while_tokens_come_ends_the_stream(stage, go_away):
    engine = await stage.engine()
    engine.always(EVENTS, *[chunk(event("a")), 0.005] * 1000)
    client = await stage.send(post(ASK))
    await client.until(lambda: client.raw.count(b"data: ") > 5)
    left_at = now()
    go_away(client)
    assert await engine.aborted() - left_at < WITHIN_S
    await stage.settled()
    assert stage.states == {"cancelled": 1}


async def test_client_that_leaves_while_it_is_dialled_for_ends_that(stage, go_away):
    with BlackHole(0) as hole:
        stage.list_endpoint("e1", f"http://127.0.0.1:{hole.port}")
        client = await stage.send(post(ASK))
        await stage.until(lambda: stage.endpoint_stats().inflight == 1)
        go_away(client)
        await stage.settled(within_s=WITHIN_S)
        await stage.until(lambda: len(stage.gateway._tasks) == 1)
    assert stage.states == {"cancelled": 1}


async def test_client_that_leaves_between_rounds_is_let_go(stage, go_away):
    """Row 21."""
    engine = await stage.engine(answer=whole(status=500))
    client = await stage.send(post(ASK))
    await engine.asked()
    await stage.until(lambda: stage.failed_attempts)
    go_away(client)
    await stage.settled(within_s=WITHIN_S)
    assert stage.states == {"cancelled": 1}
    await asyncio.sleep(0.4)
    assert len(engine.requests) == 1, "nothing is tried for a client that left"


async def test_client_that_leaves_before_its_request_is_whole_costs_nothing(stage, go_away):
    engine = await stage.engine()
    client = await stage.send(post({**ASK, "filler": "x" * 100_000})[:-1])
    await stage.until(lambda: stage.stats.buffered_body_bytes > 0)
    go_away(client)
    await stage.until(lambda: stage.stats.buffered_body_bytes == 0)
    assert engine.connections == 0
    assert stage.states == {}


async def test_client_that_leaves_with_requests_sent_ahead_ends_all_of_them(stage, go_away):
    engine = await stage.engine()
    engine.always(Do.HOLD)
    client = await stage.send(post({**ASK, "filler": "x" * 1000}) * 5)
    await engine.asked()
    go_away(client)
    await engine.aborted()
    await stage.until(lambda: stage.stats.buffered_body_bytes == 0)
    assert len(engine.requests) == 1
    assert stage.states == {"cancelled": 1}


async def test_half_of_a_hundred_clients_leaves_and_the_others_are_served(stage):
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.always(EVENTS + chunk(event("a")), go_on, chunk(b"data: [DONE]\n\n") + END)
    clients = [await stage.send(post(ASK)) for _ in range(100)]
    await engine.asked(100)
    for client in clients[::2]:
        client.leave()
    await engine.aborted(50)
    go_on.set()
    answers = [await client.answer() for client in clients[1::2]]
    assert all(answer.is_complete for answer in answers)
    await stage.settled()
    assert stage.states == {"cancelled": 50, "completed": 50}
    assert engine.aborts == 50
    assert stage.endpoint_stats().inflight == 0


async def test_clients_that_leave_at_any_moment_leave_nothing_behind(stage):
    """Each at another moment of a request that is retried once and then streams."""
    engine = await stage.engine("e1", priority=1)
    other = await stage.engine("e2")
    engine.always(0.01, whole(status=500))
    other.always(0.01, CHUNKED, 0.01, *[chunk(b"a"), 0.001] * 20, END)
    for number in range(40):
        client = await stage.send(post(ASK))
        await asyncio.sleep(number * 0.0015)
        client.leave()
    await stage.settled()
    assert sum(stage.states.values()) == 40
    assert stage.failed_attempts.keys() <= {"status_500"}
    for upstream in (engine, other):
        await upstream.until(lambda upstream=upstream: not upstream.playing)
