"""What we pass on, another reader of HTTP reads alike: nobody smuggles by being read in two ways.

The other reader is h11, written from the same documents by other people.  It may refuse what we
read; what both read has to be the same.
"""

from __future__ import annotations

import random

import h11
import pytest

from llmgw.config.carrying import LimitsSettings
from llmgw.gateway.exchange import BodyBudget
from llmgw.gateway.framing import FramingBroken
from llmgw.gateway.request_reader import RequestReader
from llmgw.gateway.responses import HeadBroken, ResponseHead

ROUNDS = 1500
HIDDEN = b"GET /v1/models HTTP/1.1\r\nHost: hidden\r\n\r\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n"
REQUESTS = [
    POST + b"Content-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN),
    POST + b"Transfer-Encoding: chunked\r\nX: y\r\n\r\n2;a=b\r\n{}\r\n0\r\nTrailer: 1\r\n\r\n",
    POST + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}",
    HIDDEN,
]
ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n!\r\n0\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: [DONE]\n\n",
]
FRAGMENTS = [
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b"\x00",
    b"\xff",
    b":",
    b",",
    b"0",
    b"7fffffffffffffff",
    b"\r\nContent-Length: 3\r\n",
    b"\r\nTransfer-Encoding: chunked\r\n",
    b"\r\nTransfer-Encoding:\x0bchunked\r\n",
    b"\r\n folded\r\n",
    b"0\r\n\r\n",
    HIDDEN,
]


def damaged(sound, draw):
    """Bytes changed, left out, put in or moved."""
    made = bytearray(sound)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(made))
        way = draw.randrange(4)
        if way == 0:
            made[at] = draw.randrange(256)
        elif way == 1:
            del made[at : at + draw.randint(1, 4)]
        elif way == 2:
            made[at:at] = draw.choice(FRAGMENTS)
        else:
            made[at:at] = made[draw.randrange(len(made)) :][: draw.randint(1, 20)]
        if not made:
            break
    return bytes(made)


def ours(raw):
    """Method and body of each request that we take for whole."""
    limits, budget = LimitsSettings(), BodyBudget(1 << 30)
    reader = RequestReader(limits=limits, budget=budget, now=lambda: 0.0)
    reader.feed(raw)
    return [(one.method, one.body) for one in reader.complete]


def theirs(raw):
    """The same as h11 sees it, up to where it refuses or would not go on."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(raw)
    read = []
    try:
        while isinstance(event := connection.next_event(), h11.Request):
            method, body = event.method, b""
            while isinstance(event := connection.next_event(), h11.Data):
                body += event.data
            if not isinstance(event, h11.EndOfMessage):
                break
            read.append((method, body))
            connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            connection.send(h11.EndOfMessage())
            connection.start_next_cycle()
    except h11.ProtocolError:
        pass
    return read


@pytest.mark.parametrize("seed", range(4))
def test_requests_that_two_readers_read_are_the_same_requests(seed):
    draw = random.Random(seed)
    for _ in range(ROUNDS):
        raw = damaged(b"".join(draw.choices(REQUESTS, k=2)), draw)
        # The strict one refuses more: what it read must be what the other begins with.
        for mine, other in zip(ours(raw), theirs(raw), strict=False):
            assert mine == other, raw


def answered(raw):
    """Status, body as far as it came and whether it is whole, as we read an engine's answer."""
    head, end, rest = raw.partition(b"\r\n\r\n")
    if not end:
        return None
    try:
        read = ResponseHead(head + end)
        framing = read.framing(keeps_payload=True)
        taken = framing.feed(rest)
    except (HeadBroken, FramingBroken):
        return None
    return read.status, framing.payload(rest[:taken]), framing.is_complete


def answered_to_h11(raw):
    """The same as h11 reads it."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(raw)
    body = b""
    try:
        head = connection.next_event()
        while isinstance(event := connection.next_event(), h11.Data):
            body += event.data
    except h11.ProtocolError:
        return None
    if not isinstance(head, h11.Response):
        return None
    return head.status_code, body, isinstance(event, h11.EndOfMessage)


@pytest.mark.parametrize("seed", range(4))
def test_answers_that_two_readers_read_are_the_same_answers(seed):
    draw = random.Random(seed)
    for _ in range(ROUNDS):
        raw = damaged(draw.choice(ANSWERS), draw)
        mine, other = answered(raw), answered_to_h11(raw)
        if mine is not None and other is not None:
            # A bare line feed ends a trailer for h11 alone: ours calls less whole, never more.
            assert (mine[:2], mine[2] and other[2]) == (other[:2], mine[2]), raw
