"""An engine that cannot be reached, breaks off or falls silent is replaced by another."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.mischief import BlackHole
from tests.fakes.raw_client import post
from tests.fakes.upstream import CHUNKED, DONE, END, EVENTS, Do, chunk, event, head, whole

ONE_ATTEMPT = {"dispatch": {"max_attempts": 1}}
GOOD = whole(b"good")
BEGUN = head(200, "Content-Length: 5")

FAILURES = {
    "closes at once": (Do.CLOSE,),
    "resets at once": (Do.RESET,),
    "closes within the status line": (b"HTTP/1.1 20", Do.CLOSE),
    "resets within the head": (b"HTTP/1.1 200 OK\r\nContent-Le", Do.RESET),
    "speaks no HTTP": (b"* OK IMAP ready\r\n\r\n", Do.HOLD),
    "sends two lengths": (head(200, "Content-Length: 1", "Content-Length: 2") + b"a", Do.HOLD),
    "sends an unasked coding": (head(200, "Transfer-Encoding: gzip"), Do.HOLD),
    "sends an endless head": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20000, Do.HOLD),
    "sends interim heads without end": (head(102, reason="Processing") * 3000, Do.HOLD),
    "switches protocols": (head(101, "Upgrade: x", "Connection: upgrade"), Do.HOLD),
    "closes after the head": (BEGUN, Do.CLOSE),
    "resets after the head": (BEGUN, Do.RESET),
    "closes after the head of chunks": (CHUNKED, Do.CLOSE),
    "closes within the first chunk's size": (CHUNKED + b"1", Do.CLOSE),
    "closes after the first chunk's size": (CHUNKED + b"5\r\n", Do.CLOSE),
    "resets before the first byte": (head(200), Do.RESET),
    "sends chunks that cannot be read": (CHUNKED + b"hello\r\n", Do.HOLD),
}


@pytest.fixture(params=FAILURES.values(), ids=FAILURES.keys())
def failure(request):
    """What an engine does that was no answer, before the first byte of a body."""
    return request.param


async def test_engine_that_fails_before_the_first_byte_is_replaced_by_another(stage, failure):
    """Rows 7 and 9: the client sees nothing of it but the count."""
    bad = await stage.engine("e1", priority=1)
    good = await stage.engine("e2", answer=GOOD)
    bad.always(*failure)
    answer = await stage.ask()
    assert (answer.status, answer.body, answer["x-llmgw-attempts"]) == (200, b"good", "2")
    assert good.requests[0].body == bad.requests[0].body
    await bad.until(lambda: not bad.open)


async def test_engine_that_fails_on_the_last_attempt_is_a_502(stage, failure):
    stage.tune(**ONE_ATTEMPT)
    engine = await stage.engine()
    engine.always(*failure)
    answer = await stage.ask()
    assert (answer.status, answer.code) == (502, "upstream_unreachable")
    assert answer.error["type"] == "upstream_error"
    assert len(engine.requests) == 1
    assert stage.states == {"failed": 1}


async def test_engine_that_fails_three_times_is_left_alone(stage, failure):
    """Breaker: rows 7 and 9 are the engine's fault."""
    stage.tune(**ONE_ATTEMPT)
    engine = await stage.engine()
    engine.always(*failure)
    for expected in (False, False, True):
        await stage.ask()
        assert stage.endpoint_stats().is_breaker_open is expected


# Dialling


async def unreachable(stage, **facts):
    """An endpoint where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    stage.list_endpoint("e1", f"http://127.0.0.1:{port}", **facts)


async def test_engine_that_refuses_connections_is_replaced_by_another(stage):
    """Row 6."""
    await unreachable(stage, priority=1)
    await stage.engine("e2", answer=GOOD)
    answer = await stage.ask()
    assert (answer.status, answer["x-llmgw-attempts"]) == (200, "2")
    assert stage.failed_attempts == {"dial_failed": 1}


@pytest.mark.parametrize(
    "url",
    ["", "http://nowhere.invalid:1", f"http://{'a' * 70}:1", "http://a..b:1"],
    ids=["refused", "no such name", "a name too long", "no name at all"],
)
async def test_engine_that_cannot_be_dialled_is_a_502_and_opens_its_breaker(stage, url):
    stage.tune(**ONE_ATTEMPT)
    await unreachable(stage)
    if url:
        stage.change_endpoint("e1", url=url)
    for expected in (False, False, True):
        answer = await stage.ask()
        assert (answer.status, answer.code) == (502, "upstream_unreachable")
        assert stage.endpoint_stats().is_breaker_open is expected


@ON_ONE_LOOP
async def test_address_that_takes_no_connection_is_given_up_after_its_time(stage):
    """Row 6; ten seconds, unless it is set."""
    assert stage.settings.dispatch.dial_timeout_s == 10
    stage.tune(dispatch={"dial_timeout_s": 0.3})
    with BlackHole(0) as hole:
        stage.list_endpoint("e1", f"http://127.0.0.1:{hole.port}", priority=1)
        await stage.engine("e2", answer=GOOD)
        began_at = asyncio.get_running_loop().time()
        answer = await stage.ask()
        took_s = asyncio.get_running_loop().time() - began_at
    assert (answer.status, answer["x-llmgw-attempts"]) == (200, "2")
    assert 0.25 < took_s < 1.5


@ON_ONE_LOOP
async def test_tls_address_of_a_plain_engine_is_a_failed_dial(stage):
    stage.tune(dispatch={"max_attempts": 1, "dial_timeout_s": 0.5})
    engine = await stage.engine()
    stage.change_endpoint("e1", url=engine.url.replace("http:", "https:"))
    assert (await stage.ask()).code == "upstream_unreachable"


# Silence


async def silent(stage, steps, *, attempts=5):
    """An engine that says no more, and a clock that passes its response timeout."""
    stage.clock = FakeClock()
    stage.tune(dispatch={"response_timeout_s": 100, "max_attempts": attempts})
    engine = await stage.engine("e1", priority=1)
    engine.always(*steps, Do.HOLD)
    client = await stage.send(post(ASK))
    await engine.asked()
    await asyncio.sleep(0.05)
    return engine, client


SILENCES = [
    pytest.param((), "upstream_unreachable", 502, id="before its head"),
    pytest.param((b"HTTP/1.1 200 OK\r\n",), "upstream_unreachable", 502, id="within its head"),
    pytest.param((CHUNKED,), "no_first_byte", 504, id="after its head"),
    pytest.param((CHUNKED + b"5\r\n",), "no_first_byte", 504, id="after a chunk's size"),
    pytest.param((head(100, reason="Continue"),), "upstream_unreachable", 502, id="after a 100"),
]


@ON_ONE_LOOP
@pytest.mark.parametrize(("steps", "code", "status"), SILENCES)
async def test_engine_that_falls_silent_is_given_up_after_its_time(stage, steps, code, status):
    """Rows 8 and 10: on the last attempt an answer of our own, and never a commit."""
    engine, client = await silent(stage, steps, attempts=1)
    stage.clock.advance(101)
    answer = await client.answer()
    assert (answer.status, answer.code) == (status, code)
    await engine.aborted()


@ON_ONE_LOOP
@pytest.mark.parametrize(("steps", "code", "status"), SILENCES)
async def test_engine_that_falls_silent_is_replaced_by_another(stage, steps, code, status):
    engine, client = await silent(stage, steps)
    await stage.engine("e2", answer=GOOD)
    stage.clock.advance(101)
    answer = await client.answer()
    assert (answer.status, answer.body, answer["x-llmgw-attempts"]) == (200, b"good", "2")
    await engine.aborted()


async def late(stage, *parts, silent_s, **dispatch):
    """The body of an answer whose parts come after so long a silence each."""
    stage.clock = clock = FakeClock()
    stage.tune(dispatch=dispatch)
    engine = await stage.engine()
    waits = [asyncio.Event() for _ in parts]
    engine.always(*(step for pair in zip(waits, parts, strict=True) for step in pair))
    client = await stage.send(post(ASK))
    await engine.asked()
    for wait in waits:
        clock.advance(silent_s)
        await asyncio.sleep(0.3)
        wait.set()
        await asyncio.sleep(0.02)
    return (await client.answer()).body


@ON_ONE_LOOP
async def test_time_for_the_body_counts_from_the_head(stage):
    parts = CHUNKED, chunk(b"late") + END
    bounds = {"response_timeout_s": 100, "max_attempts": 1}
    assert await late(stage, *parts, silent_s=90, **bounds) == b"late"


@ON_ONE_LOOP
async def test_no_response_timeout_means_no_bound(stage):
    parts = CHUNKED, chunk(b"late") + END
    assert await late(stage, *parts, silent_s=100_000, response_timeout_s=0) == b"late"


@ON_ONE_LOOP
async def test_stream_under_way_may_be_silent_for_longer_than_an_answer_may_take_to_begin(stage):
    stage.clock = clock = FakeClock()
    stage.tune(dispatch={"response_timeout_s": 100})
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.always(EVENTS + chunk(event("a")), go_on, chunk(DONE) + END)
    client = await stage.send(post(ASK))
    await client.got(event("a"))
    clock.advance(1000)
    await asyncio.sleep(0.3)
    go_on.set()
    assert (await client.answer()).body.endswith(DONE)
