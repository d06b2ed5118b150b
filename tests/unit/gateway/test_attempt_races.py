"""Of a first byte, a loss, a timeout and an abandonment in one moment exactly one acts."""

from __future__ import annotations

import asyncio
import random

import pytest

from llmgw.domain.routes import Endpoint, RouteTable
from llmgw.gateway import attempt
from llmgw.gateway.attempt import Attempt
from llmgw.gateway.breaker import BreakerRules, Permit
from llmgw.gateway.chunked_framing import ChunkedFraming
from llmgw.gateway.endpoints import Registry
from llmgw.gateway.outcomes import Ending
from llmgw.gateway.responses import ResponseHead
from tests.fakes.clock import FakeClock
from tests.fakes.upstream import CHUNKED, chunk, head

pytestmark = pytest.mark.skipif(
    not attempt.__file__.endswith(".py"), reason="compiled code takes no stand-in for a connection"
)

RACES = 10_000
WHOLE = head(200, "Content-Length: 2")
FAILING = head(500, "Transfer-Encoding: chunked")


class Connection:
    """One to an engine, as far as an attempt needs it: after its end nothing comes any more."""

    is_reused = False
    has_bytes = True  # so that a loss is not taken for that of a stale connection

    def __init__(self):
        self.framing = None
        self.receiver = None
        self.aborts = 0

    def send(self, request, receiver):
        self.receiver = receiver

    def abort(self):
        self.aborts += 1
        self.receiver = None

    # What the engine does

    def answer_whole(self):
        self._end("on_whole", ResponseHead(WHOLE), b"ok")

    def begin(self, said=CHUNKED):
        if self.receiver is not None and self.framing is None:
            self.framing = ChunkedFraming()
            self.receiver.on_head(ResponseHead(said))

    def begin_to_fail(self):
        self.begin(FAILING)

    def send_byte(self):
        if self.receiver is not None and self.framing is not None:
            data = chunk(b"x")
            self.framing.feed(data)
            self.receiver.on_body(data)

    def end(self):
        if self.framing is not None:
            self._end("on_last", b"")

    def break_off(self):
        self._end("on_lost", "reset")

    def _end(self, call, *given):
        receiver, self.receiver = self.receiver, None
        if receiver is not None:
            getattr(receiver, call)(*given)


class Owner:
    """Counts what it is told, and takes the connection over with the first byte."""

    wants_payload = False

    def __init__(self):
        self.told = []

    def on_sent(self):
        pass

    def on_head(self):
        pass

    def on_failed(self, ending, reason):
        self.told.append(ending)

    def on_success(self, head, body):
        self.told.append("success")

    def on_answer(self, data, *, is_whole):
        self.told.append("answer")
        self.attempt.connection.receiver = None

    def on_fault(self, error):
        raise error

    def spawn(self, work):
        raise AssertionError("nobody dials here")


@pytest.fixture
def live():
    """An endpoint whose connections are made here."""
    registry = Registry(rules=BreakerRules(), dial_timeout_s=1.0, now=FakeClock().monotonic)
    registry.replace(RouteTable(endpoints=(Endpoint("e1", "http://127.0.0.1:1", ("m",)),)))
    [one] = registry.all()
    return one


def begin(live):
    """An attempt that was sent, its owner and its connection."""
    connection, owner = Connection(), Owner()
    live.pool.give(connection)
    owner.attempt = Attempt(owner, live, Permit.ORDINARY)
    owner.attempt.start(b"request")
    assert live.inflight == 1
    return owner, connection


def moves(owner, connection):
    attempt = owner.attempt
    return {
        "byte": (connection.begin, connection.send_byte),
        "end": (connection.begin, connection.end),
        "whole": (connection.answer_whole,),
        "failing": (connection.begin_to_fail,),
        "loss": (connection.break_off,),
        "late loss": (connection.begin, connection.break_off),
        "leaves": (lambda: attempt.abandon(Ending.ENDPOINT_LEFT),),
        "hangs": (lambda: attempt.abandon(Ending.NO_PROGRESS),),
        "times out": (attempt.time_out,),
    }


async def test_of_everything_that_ends_an_attempt_exactly_one_acts(live):
    """Ten thousand forced races: never two, never none, and counted out once."""
    draw = random.Random(7)
    seen = set()
    for number in range(RACES):
        owner, connection = begin(live)
        ways = moves(owner, connection)
        first, second = draw.sample(sorted(ways), 2)
        steps = [list(ways[first]), list(ways[second])]
        while any(steps):
            step = draw.choice([one for one in steps if one]).pop(0)
            step()
            if draw.random() < 0.2:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(owner.told) == 1, (number, first, second, owner.told)
        seen.add(owner.told[0])
        owner.attempt.finish(is_truncated=False)
        owner.attempt.finish(is_truncated=True)
        owner.attempt.abandon()
        assert (len(owner.told), live.inflight, live.seat.reserved) == (1, 0, 0)
        live.pool.forget(connection)
    assert seen == {
        "answer",
        "success",
        Ending.ENDPOINT_LEFT,
        Ending.NO_PROGRESS,
        Ending.HEAD_TIMEOUT,
        Ending.BODY_TIMEOUT,
        Ending.LOST_BEFORE_HEAD,
        Ending.LOST_BEFORE_BODY,
    }


async def test_client_that_leaves_ends_an_attempt_without_a_word(live):
    for step in ((), ("begin",), ("begin", "send_byte")):
        owner, connection = begin(live)
        for name in step:
            getattr(connection, name)()
        before = list(owner.told)
        owner.attempt.abandon()
        connection.send_byte()
        connection.break_off()
        owner.attempt.finish(is_truncated=False)
        assert owner.told == before
        assert live.inflight == 0
