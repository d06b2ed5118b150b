"""Everything at once: whatever clients, engines and tables do, each answer is right or refused."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import get, post
from tests.fakes.upstream import CHUNKED, DONE, END, EVENTS, Do, chunk, event, head, stream, whole

GOOD = [
    (whole(b"good"),),
    (stream("a", "b"),),
    (0.002, CHUNKED, chunk(b"go"), 0.001, chunk(b"od") + END),
    (EVENTS, 0.003, chunk(event("a")), 0.003, chunk(DONE) + END),
    (head(100, reason="Continue"), whole(b"good")),
    (head(200, "Content-Length: 4", "Connection: close") + b"go", b"od"),
]
BAD = [
    (Do.CLOSE,),
    (0.002, Do.RESET),
    (b"HTTP/1.1 2", Do.CLOSE),
    (head(200, "Content-Length: 4"), Do.RESET),
    (CHUNKED + b"4\r\n", 0.002, Do.CLOSE),
    (whole(b"busy", status=503),),
    (whole(b"busy", status=429),),
    (whole(b"Loading model", status=503),),
]
BROKEN = [
    (EVENTS + chunk(event("a")), 0.002, Do.CLOSE),
    (CHUNKED + chunk(b"go"), Do.RESET),
    (EVENTS, chunk(event("a")), END),
]


async def stays(client, draw):
    """A client that waits for its answer, which is good, broken or an error that says so."""
    answer = await client.answer(within_s=20)
    if answer.status == 200:
        body = bytes(answer.body)
        good = body == b"good" or body.endswith(DONE)
        assert answer.is_complete == good, body
        assert good or body == b"go" or b"stream_truncated" in body, body
    else:
        assert answer.is_complete
        assert answer.status in {429, 502, 503}
        assert bytes(answer.body) in {b"busy", b"Loading model"} or answer.code
    return answer.status


async def leaves(client, draw):
    await asyncio.sleep(draw.random() * 0.02)
    client.leave()


async def resets(client, draw):
    await asyncio.sleep(draw.random() * 0.02)
    client.reset()


async def half_closes(client, draw):
    client.half_close()
    return await stays(client, draw)


async def asks_ahead(client, draw):
    """Both answers, unless the first broke the connection."""
    client.send(get("/health"))
    status = await stays(client, draw)
    await client.until(lambda: client.ended or b'{"status":"ok"}' in client.raw)
    return status


async def reads_late(client, draw):
    client.stop_reading()
    await asyncio.sleep(draw.random() * 0.02)
    client.read_on()
    return await stays(client, draw)


async def change_tables(stage, draw):
    """Endpoints come, go, drain and move; at least one always serves."""
    facts = dict(stage.endpoints)
    while True:
        await asyncio.sleep(0.01)
        names = draw.sample(sorted(facts), draw.randint(1, len(facts)))
        stage.endpoints = {name: facts[name] for name in names}
        stage.publish()


@pytest.mark.parametrize("seed", [1, 2])
async def test_mixed_traffic_ends_with_right_answers_and_nothing_left(stage, seed):
    draw = random.Random(seed)
    stage.tune(breaker={"open_s": 0.1, "open_max_s": 0.2})
    engines = await stage.engines(4)
    ways = [stays, stays, leaves, resets, half_closes, asks_ahead, reads_late]
    changing = asyncio.create_task(change_tables(stage, draw))
    behaving = []
    for _ in range(200):
        for engine in engines:
            engine.always(*draw.choice(draw.choice([GOOD, GOOD, GOOD, BAD, BROKEN])))
        client = await stage.send(post({**ASK, "stream": draw.random() < 0.5}))
        behaving.append(asyncio.create_task(draw.choice(ways)(client, draw)))
        if draw.random() < 0.3:
            await asyncio.sleep(draw.random() * 0.01)
    statuses = await asyncio.gather(*behaving)
    changing.cancel()
    await asyncio.wait([changing])
    await stage.settled()
    assert statuses.count(200) > 60
    states = stage.states
    assert states["completed"] > 60
    assert sum(states.values()) == sum(stage.stats.totals.requests.values())
    for engine in engines:
        await engine.until(lambda engine=engine: not engine.playing)
