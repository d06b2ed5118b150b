"""Whatever an engine sends instead of an answer, its client gets an end that it can read."""

from __future__ import annotations

import itertools
import random

import httptools
import pytest

from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import post
from tests.fakes.upstream import (
    CHUNKED,
    DONE,
    END,
    EVENTS,
    Do,
    chunk,
    event,
    head,
    stream,
    whole,
)

HTTP10 = b'POST /v1/completions HTTP/1.0\r\nContent-Length: 13\r\n\r\n{"model":"m"}'
ASKS = [post(ASK), post({**ASK, "stream": True}), HTTP10]
"""Of the second the usage is asked for on the quiet, so its stream is written anew."""

EXTRA = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
SOUND = [
    stream("a", "b"),
    EVENTS + chunk(event("a")) + chunk(EXTRA) + chunk(DONE) + END,
    EVENTS + chunk(b": ping\n\n") + chunk(event("a") + EXTRA + DONE) + END,
    whole(b'{"a":1}'),
    CHUNKED + chunk(b"hello") + chunk(b"world") + END,
    CHUNKED + b"0005 ;a=b\r\nhello\r\n5;x\r\nworld\r\n" + b"0\r\nX-T: 1\r\nY: 2\r\n\r\n",
    EVENTS + b"%x;a\r\n%b\r\n" % (len(event("a")), event("a")) + chunk(DONE) + END,
    head(200) + b"until the close",
    head(204),
    head(103, reason="Early Hints") + whole(b"ok"),
    whole(b"no", status=500),
    head(500, "Transfer-Encoding: chunked") + chunk(b"bad") + END,
    b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + event("a") + DONE,
]
SIGNS = b"\r\n\x00 :;0123fFgz\xff,"


def damaged(answer, draw):
    """The answer with bytes changed, left out or put in."""
    answer = bytearray(answer)
    for _ in range(draw.choice([0, 1, 1, 2, 3])):
        at = draw.randrange(len(answer))
        way = draw.randrange(4)
        if way == 0:
            answer[at] = draw.choice(SIGNS)
        elif way == 1:
            del answer[at : at + draw.randint(1, 5)]
        elif way == 2:
            answer[at:at] = bytes(draw.choices(SIGNS, k=draw.randint(1, 4)))
        else:
            del answer[at:]
        if not answer:
            break
    return bytes(answer)


def pieces(answer, draw):
    edges = sorted([0, len(answer), *draw.choices(range(len(answer) + 1), k=draw.randint(0, 4))])
    return [answer[a:b] for a, b in itertools.pairwise(edges)]


def is_readable(answer):
    """Whether a strict client could read so far as this goes: what it cannot, ours need not."""
    try:
        httptools.HttpResponseParser(object()).feed_data(answer)
    except httptools.HttpParserError:
        return False
    return True


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_no_damage_leaves_a_client_waiting_or_with_less_than_http(stage, seed, logged_errors):
    draw = random.Random(seed)
    stage.tune(dispatch={"max_attempts": 1}, breaker={"failure_threshold": 1_000_000})
    engine = await stage.engine(engine=draw.choice(["", "llamacpp"]))
    for _ in range(150):
        sent = damaged(draw.choice(SOUND), draw)
        engine.once(*pieces(sent, draw), draw.choice([Do.CLOSE, Do.RESET]))
        client = await stage.send(draw.choice(ASKS))
        answer = await client.answer()
        assert answer.status, sent
        if not is_readable(sent):
            logged_errors.clear()  # the client's own, if it got the damage at all
        assert logged_errors == [], sent
        client.leave()
    await stage.settled()
    assert sum(stage.states.values()) == 150
