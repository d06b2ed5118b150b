"""Requests that a client sends before it has its answers wait for their turn, within bounds."""

from __future__ import annotations

import asyncio

from tests.fakes.clock import FakeClock
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import End, get, post
from tests.fakes.upstream import CHUNKED, END, EVENTS, chunk, event, whole


async def test_requests_sent_ahead_are_answered_in_their_order(stage):
    engine = await stage.engine()
    numbers = range(8)
    for number in numbers:
        engine.once(whole(b"%d" % number))
    client = await stage.send(b"".join(post({**ASK, "n": n}) for n in numbers))
    assert [(await client.answer()).body for _ in numbers] == [b"%d" % n for n in numbers]
    assert [request.json["n"] for request in engine.requests] == list(numbers)


async def test_request_sent_ahead_of_a_stream_is_answered_after_it(stage):
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.once(EVENTS + chunk(event("a")), go_on, chunk(b"data: [DONE]\n\n") + END)
    client = await stage.send(post(ASK))
    await client.got(event("a"))
    client.send(get("/health"))
    client.send(get("/health")[:20])
    await asyncio.sleep(0.02)
    assert b"ok" not in client.raw
    go_on.set()
    assert (await client.answer()).body.endswith(b"[DONE]\n\n")
    assert (await client.answer()).json == {"status": "ok"}
    client.send(get("/health")[20:])
    assert (await client.answer()).json == {"status": "ok"}
    assert engine.aborts == 0


@ON_ONE_LOOP
async def test_bodies_sent_ahead_beyond_a_bound_wait_in_the_kernel(stage):
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.once(go_on, whole(b"1"))
    engine.once(whole(b"2"))
    long = post({**ASK, "filler": "x" * 6_000_000})
    client = await stage.send(post(ASK))
    await engine.asked()
    client.send(long)
    await asyncio.sleep(0.1)
    [connection] = stage.gateway._reception.connections
    assert len(connection._ahead) < 600_000
    go_on.set()
    assert [(await client.answer()).body for _ in range(2)] == [b"1", b"2"]
    assert len(engine.requests[1].raw) > 6_000_000


@ON_ONE_LOOP
async def test_request_sent_ahead_has_its_whole_time_once_its_turn_comes(stage):
    """The gateway stopped reading meanwhile; that is not the client's slowness."""
    stage.clock = clock = FakeClock()
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.once(go_on, whole(b"1"))
    engine.once(whole(b"2"))
    ahead = post(ASK)
    client = await stage.send(post(ASK) + ahead[:30])
    await engine.asked()
    clock.advance(300)
    go_on.set()
    assert (await client.answer()).body == b"1"
    await asyncio.sleep(0.4)
    client.send(ahead[30:])
    assert (await client.answer()).body == b"2"


async def test_thousands_of_requests_in_one_go_are_all_answered(stage):
    client = await stage.send(get("/health") * 3000)
    client.half_close()
    assert await client.end(within_s=20) is End.CLOSED
    assert client.raw.count(b"HTTP/1.1 200 OK") == 3000


async def test_few_of_many_requests_sent_ahead_are_held_while_the_first_is_answered(stage):
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.once(go_on, whole(b"1"))
    client = await stage.send(post(ASK) + get("/health") * 3000)
    await engine.asked()
    await asyncio.sleep(0.05)
    [connection] = stage.gateway._reception.connections
    assert len(connection._reader.complete) < 1000
    go_on.set()
    await client.until(lambda: client.raw.count(b"HTTP/1.1 200 OK") == 3001, within_s=20)


@ON_ONE_LOOP
async def test_client_that_asks_and_never_reads_makes_no_answers_pile_up(stage):
    await stage.start(buffer_bytes=4096)
    client = await stage.client(buffer_bytes=4096)
    client.stop_reading()
    client.send(get("/v1/models") * 4_000)
    await asyncio.sleep(0.3)
    [connection] = stage.gateway._reception.connections
    assert connection.is_paused
    assert connection._transport.get_write_buffer_size() < 500_000
    client.read_on()
    done = lambda: client.raw.count(b"HTTP/1.1 200 OK") == 4_000  # noqa: E731 - one wait
    await client.until(done, within_s=30)


@ON_ONE_LOOP
async def test_what_a_client_does_not_take_in_time_is_dropped_with_a_reset(stage):
    """An ordinary close would leave megabytes with the kernel, for minutes."""
    stage.tune(stream={"write_timeout_s": 0.4})
    engine = await stage.engine()
    engine.always(CHUNKED, chunk(b"x" * 20_000_000) + END)
    client = await stage.client(buffer_bytes=4096)
    client.stop_reading()
    client.send(post(ASK))
    await engine.asked()
    await stage.until(lambda: stage.stats.connections == 0)
    client.read_on()
    assert await client.end() is End.RESET
