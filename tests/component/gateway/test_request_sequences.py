"""Requests ahead of each other, in any pieces: each gets its own answer, in its turn."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import End, get, post
from tests.fakes.upstream import CHUNKED, DONE, END, EVENTS, chunk, event, stream, whole

IN_CHUNKS = (
    b"POST /v1/completions HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'7\r\n{"model\r\n6;x=y\r\n":"m"}\r\n0\r\nX-Trailer: 1\r\n\r\n'
)
REQUESTS = [
    (post(ASK), 200),
    (post({**ASK, "filler": "x" * 70_000}), 200),
    (post({**ASK, "filler": "x" * 300_000}), 200),
    (IN_CHUNKS, 200),
    (post(ASK, "Expect: 100-continue"), 200),
    (post(ASK, "Connection: Upgrade", "Upgrade: h2c"), 200),
    (get("/health"), 200),
    (get("/nothing"), 404),
    (post(b"no JSON"), 400),
]
WHOLE = [(whole(b"a"),), (0.003, whole(b"b"))]
IN_PIECES = [
    (stream("c"),),
    (EVENTS + chunk(event("d")), 0.004, chunk(DONE) + END),
    (CHUNKED, 0.001, chunk(b"e") + END),
]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("half_closes", [True, False])
async def test_each_request_gets_its_answer_in_its_turn(stage, seed, half_closes):
    draw = random.Random(seed)
    engine = await stage.engine()
    for _ in range(40):
        asked = draw.choices(REQUESTS, k=draw.randint(1, 6))
        raw = b"".join(request for request, _ in asked)
        engine._once = [draw.choice(WHOLE if half_closes else WHOLE + IN_PIECES) for _ in asked]
        client = await stage.client()
        edges = sorted([0, len(raw), *draw.choices(range(len(raw)), k=draw.randint(0, 5))])
        for a, b in itertools.pairwise(edges):
            client.send(raw[a:b])
            await asyncio.sleep(draw.choice([0, 0, 0.002]))
        if half_closes:
            client.half_close()
        answers = [await client.answer() for _ in asked]
        assert [answer.status for answer in answers] == [status for _, status in asked]
        assert all(answer.is_complete for answer in answers)
        if half_closes:
            assert await client.end() is End.CLOSED
        client.leave()
        await stage.settled()
    assert stage.stats.totals.truncated == 0
    assert stage.states.keys() == {"completed", "failed"}
