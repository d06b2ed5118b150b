"""Whatever bytes come from a client: it is answered or let go, and engines see sound requests."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random

import httptools
import pytest

from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import get, post
from tests.fakes.upstream import DONE, END, EVENTS, chunk, event, stream, whole

CLIENTS = 120
BODY = b'{"model":"m","messages":[]}'
HIDDEN = b"GET /v1/hidden HTTP/1.1\r\nHost: hidden\r\n\r\n"
CHUNKED = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
SOUND = [
    post(ASK),
    post(ASK | {"stream": True}),
    post(BODY + HIDDEN),
    CHUNKED + chunk(BODY[:9]) + chunk(BODY[9:]) + END,
    post(ASK, "Expect: 100-continue"),
    post(ASK, "Connection: keep-alive, Upgrade", "Upgrade: h2c"),
    post(ASK, "Connection: close"),
    b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY),
    get("/v1/models"),
    get("/health", method="HEAD"),
    get("/v1/requests/req-1"),
]
FRAGMENTS = [
    *(bytes([sign]) for sign in b"\r\n\x00\x0b\x7f\xff :,;0{"),
    b"\r\n\r\n",
    b"\r\nContent-Length: 3\r\n",
    b"\r\nTransfer-Encoding: chunked\r\n",
    b"\r\nX-LLMGW-Hop: x\r\n",
    b"\r\nHost: other\r\n",
    b"\r\n folded\r\n",
    b"x" * 5000,
    HIDDEN,
]


def damaged(sound, draw):
    made = bytearray(sound)
    for _ in range(draw.choice([0, 0, 0, 1, 1, 2])):
        at = draw.randrange(len(made))
        way = draw.randrange(4)
        if way == 0:
            made[at] = draw.randrange(256)
        elif way == 1:
            del made[at : at + draw.randint(1, 6)]
        elif way == 2:
            made[at:at] = draw.choice(FRAGMENTS)
        else:
            del made[at:]
        if not made:
            break
    return bytes(made)


async def ask(stage, draw):
    """One client: it sends damaged requests in pieces, and leaves in one of the ways there are."""
    raw = b"".join(damaged(one, draw) for one in draw.choices(SOUND, k=draw.randint(1, 3)))
    client = await stage.client()
    client.parses = False  # to what it sent, some answers have no body
    edges = sorted([0, len(raw), *draw.choices(range(len(raw) + 1), k=draw.randint(0, 4))])
    for a, b in itertools.pairwise(edges):
        client.send(raw[a:b])
        await asyncio.sleep(draw.choice([0, 0, 0.001]))
        if client.ended:
            return raw, client
    way = draw.randrange(4)
    if way == 0:
        client.leave()
    elif way == 1:
        client.reset()
    else:
        with contextlib.suppress(OSError):  # the gateway may have been first
            client.half_close()
        await client.end(within_s=10)
    return raw, client


def is_sound(request):
    """Whether another parser finds this one whole request in it and nothing behind it."""
    ends = []
    reading = type("Reading", (), {"on_message_complete": lambda _: ends.append(1)})()
    httptools.HttpRequestParser(reading).feed_data(request.raw)
    [length] = request.fields[b"content-length"]
    return (
        ends == [1]
        and int(length) == len(request.body)
        and len(request.fields[b"host"]) == 1
        and b'"m"' in request.body
        and request.line.startswith((b"POST /v1/chat/completions ", b"POST /v1/completions "))
        and not any(name.startswith(b"x-llmgw") for name in request.fields)
        and b"transfer-encoding" not in request.fields
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_no_bytes_of_a_client_harm_the_gateway_or_reach_an_engine_unsound(stage, seed):
    draw = random.Random(seed)
    stage.tune(limits={"body_timeout_s": 0.5, "max_header_bytes": 8192})
    engine = await stage.engine()
    streamed = (EVENTS + chunk(event("a")), 0.002, chunk(DONE) + END)
    for _ in range(CLIENTS):
        engine.once(*draw.choice([(whole(),), (stream("a", "b"),), streamed]))
        raw, client = await ask(stage, draw)
        assert client.raw[:5] in (b"", b"HTTP/"), raw
    await stage.settled()
    assert len(engine.requests) > CLIENTS / 4
    assert [request.raw for request in engine.requests if not is_sound(request)] == []
    assert (await stage.ask()).status == 200
