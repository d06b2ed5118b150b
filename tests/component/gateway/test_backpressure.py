"""A client that reads slowly makes its engine wait, costs little, and harms nobody."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import End, post
from tests.fakes.upstream import CHUNKED, END, chunk, whole

PIECE = chunk(b"x" * 65536)
SMALL = 32768
"""What the kernel keeps at each place, so that a test need not send much."""


async def stalled(stage, *, pieces=None):
    """A client that stopped reading in the middle of a long answer, and its engine."""
    engine = await stage.engine(buffer_bytes=SMALL)
    engine.always(CHUNKED, *(pieces if pieces is not None else itertools.repeat(PIECE, 1000)), END)
    await stage.start(buffer_bytes=SMALL)
    client = await stage.client(buffer_bytes=SMALL)
    client.send(post(ASK))
    await client.got(b"\r\n\r\n")
    client.stop_reading()
    await no_more_comes(engine)
    return engine, client


async def no_more_comes(engine):
    async with asyncio.timeout(5):
        sent_bytes = -1
        while sent_bytes != engine.sent_bytes:
            sent_bytes = engine.sent_bytes
            await asyncio.sleep(0.05)


def held_bytes(stage):
    return sum(
        connection._transport.get_write_buffer_size()
        for connection in stage.gateway._reception.connections
    )


async def test_engine_of_a_client_that_stops_reading_is_made_to_wait(stage):
    engine, _ = await stalled(stage)
    assert engine.sent_bytes < 16_000_000 < 1000 * len(PIECE)
    assert held_bytes(stage) <= stage.settings.stream.buffer_bytes


async def test_slow_client_gets_every_byte_in_the_end(stage):
    pieces = [chunk(b"%d" % n * 20000) for n in range(500)]
    _, client = await stalled(stage, pieces=pieces)
    client.read_on()
    answer = await client.answer(within_s=20)
    assert answer.is_complete
    assert answer.body == b"".join(b"%d" % n * 20000 for n in range(500))


async def test_connection_to_an_engine_that_had_to_wait_is_used_again(stage):
    """A paused one would never be read again."""
    engine, client = await stalled(stage, pieces=[PIECE] * 20)
    for _ in range(2):
        client.read_on()
        assert (await client.answer(within_s=20)).is_complete
        client.send(post(ASK))
        await client.got(b"\r\n\r\n")
        client.stop_reading()
        await no_more_comes(engine)
    client.read_on()
    assert (await client.answer(within_s=20)).is_complete
    assert engine.connections == 1


@pytest.mark.parametrize("size_bytes", [100_000, 250_000, 400_000, 700_000])
@pytest.mark.parametrize("is_chunked", [True, False], ids=["chunks", "length"])
async def test_last_bytes_that_make_a_client_pause_do_not_pause_its_engine(
    stage, size_bytes, is_chunked
):
    """The connection is kept by then, and belongs to the next request."""
    engine = await stage.engine()
    body = b"x" * size_bytes
    if is_chunked:
        engine.once(CHUNKED + chunk(b"a"), 0.02, chunk(body[1:]) + END)
    else:
        engine.once(whole(body))
    await stage.start(buffer_bytes=SMALL)
    slow = await stage.client(buffer_bytes=SMALL)
    slow.stop_reading()
    slow.send(post(ASK))
    await engine.asked()
    await engine.until(lambda: not engine.playing)
    await asyncio.sleep(0.05)
    assert (await stage.ask()).status == 200
    slow.read_on()
    assert len((await slow.answer()).body) == size_bytes


async def test_one_slow_client_does_not_slow_the_others(stage):
    engine, _ = await stalled(stage)
    engine.always(CHUNKED + chunk(b"quick") + END)
    for _ in range(20):
        assert (await stage.ask()).body == b"quick"


@ON_ONE_LOOP
async def test_client_that_takes_no_byte_for_too_long_is_let_go(stage):
    """Row 23: cancelled, and its engine freed; nobody is blamed."""
    stage.tune(stream={"write_timeout_s": 0.4}, breaker={"failure_threshold": 1})
    engine, client = await stalled(stage)
    await engine.aborted()
    await stage.settled()
    assert stage.states == {"cancelled": 1}
    assert not stage.endpoint_stats().is_breaker_open
    client.read_on()
    await client.end()


@ON_ONE_LOOP
async def test_client_that_takes_a_few_bytes_now_and_then_is_not_let_go(stage):
    stage.tune(stream={"write_timeout_s": 0.6})
    engine, client = await stalled(stage)
    for _ in range(5):
        client.read_on()
        before = len(client.raw)
        await client.until(lambda before=before: len(client.raw) > before + 200_000)
        client.stop_reading()
        await asyncio.sleep(0.3)
    assert engine.aborts == 0
    assert client.ended is None


@ON_ONE_LOOP
async def test_client_that_does_not_take_the_end_of_its_answer_is_let_go(stage):
    """Also one whose connection is to be closed, and whose engine has said all."""
    stage.tune(stream={"write_timeout_s": 0.4})
    engine = await stage.engine()
    engine.always(CHUNKED + chunk(b"a"), 0.05, chunk(b"x" * 60_000) + END)
    await stage.start(buffer_bytes=4096)
    client = await stage.client(buffer_bytes=4096)
    client.stop_reading()
    client.send(post(ASK, "Connection: close"))
    await engine.asked()
    await stage.until(lambda: stage.stats.connections == 0)
    assert stage.states == {"completed": 1}
    client.read_on()
    assert await client.end() is End.RESET, "the kernel keeps nothing for it"


async def test_client_that_leaves_while_its_engine_waits_frees_it(stage):
    engine, client = await stalled(stage)
    left_at = asyncio.get_running_loop().time()
    client.leave()
    assert await engine.aborted() - left_at < 1.0
    await stage.settled()
    assert stage.states == {"cancelled": 1}
