"""A stream whose model is being loaded may begin with comments: what comes later is put into it."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.domain.routes import ModelState
from tests.fakes.clock import FakeClock
from tests.fakes.gateway_stage import ASK, MODEL, ON_ONE_LOOP
from tests.fakes.raw_client import End, post
from tests.fakes.upstream import DONE, END, EVENTS, Do, chunk, event, head, stream, whole
from tests.fakes.wishes import Wishes

pytestmark = ON_ONE_LOOP

STREAM = {**ASK, "stream": True}
COMMENT = b": the model is being loaded\n\n"


@pytest.fixture
def loading(stage):
    """A model that somebody loads when it is asked for, and a clock that stands still."""
    stage.clock = FakeClock()
    stage.let_in(load_requests=Wishes(), on_demand={"hold_s": 25, "hold_keepalive": True})
    stage.list_model(MODEL, state=ModelState.ON_DEMAND, is_on_demand=True)
    return stage


async def begun(stage, body=STREAM, *fields):
    """A client whose answer has begun before any engine was there."""
    client = await stage.send(post(body, "X-Request-Id: mine", *fields))
    await stage.until(lambda: stage.stats.loads.held.get(MODEL) == 1)
    stage.clock.advance(10.1)
    await client.got(COMMENT)
    return client


def last_event(client):
    return bytes(client.raw).rpartition(b"data: ")[2]


async def test_stream_begins_after_ten_seconds_and_is_answered_within_it(loading):
    client = await begun(loading)
    loading.clock.advance(10.1)
    await client.until(lambda: client.raw.count(COMMENT) == 2)
    await loading.engine(answer=stream("a", "b"))
    answer = await client.answer()
    assert (answer.status, answer.is_complete) == (200, True)
    assert (answer["content-type"], answer["x-request-id"]) == ("text/event-stream", "mine")
    assert answer["x-accel-buffering"] == "no"
    assert answer.body == COMMENT * 2 + event("a") + event("b") + DONE
    assert client.raw.count(b"HTTP/1.1") == 1
    assert loading.states == {"completed": 1}
    client.send(post(STREAM))
    assert (await client.answer()).body == event("a") + event("b") + DONE


@pytest.mark.parametrize("asked", [STREAM, {**STREAM, "stream_options": {"include_usage": True}}])
@pytest.mark.parametrize("is_chunked", [True, False], ids=["chunks", "until the close"])
async def test_stream_of_an_engine_is_put_in_wherever_it_is_split(loading, asked, is_chunked):
    engine = await loading.engine(models=("other",))
    if is_chunked:
        sent = EVENTS + chunk(event("a")) + chunk(event("b") + DONE) + END
        last = ()
    else:
        sent = head(200, "Content-Type: text/event-stream") + event("a") + event("b") + DONE
        last = (Do.CLOSE,)
    for position in range(10, len(sent), 23):
        engine.once(sent[:position], sent[position:], *last)
        client = await begun(loading, asked)
        loading.change_endpoint("e1", models=(MODEL,))
        answer = await client.answer()
        assert answer.is_complete, position
        assert answer.body == COMMENT + event("a") + event("b") + DONE
        loading.change_endpoint("e1", models=("other",))
        client.leave()


async def test_hold_that_ends_is_told_within_the_stream(loading):
    client = await begun(loading)
    loading.list_model(MODEL, state=ModelState.LOADING, is_on_demand=True, retry_after_s=40)
    loading.clock.advance(15)
    assert await client.end() is End.CLOSED
    assert b'"code":"model_loading"' in last_event(client)
    assert not client.raw.endswith(END), "nobody takes it for a whole answer"
    assert loading.stats.totals.requests == {(MODEL, 503): 1}


async def test_load_that_fails_is_told_with_its_cause_within_the_stream(loading):
    client = await begun(loading)
    loading.list_model(MODEL, state=ModelState.FAILED, is_on_demand=True, failure="no GPU memory")
    assert await client.end() is End.CLOSED
    assert b"no GPU memory" in last_event(client)


@pytest.mark.parametrize("status", [400, 500])
async def test_error_of_an_engine_is_an_event_of_the_stream(loading, status):
    loading.tune(dispatch={"max_attempts": 1})
    client = await begun(loading)
    await loading.engine(answer=whole(b'{\n "error": "too long"\n}', status=status))
    assert await client.end() is End.CLOSED
    assert client.raw.count(b"HTTP/1.1") == 1
    assert b'data: {\ndata:  "error": "too long"\ndata: }\n\n' in client.raw
    assert not client.raw.endswith(END)


async def test_engine_that_answers_in_one_piece_is_one_event(loading):
    client = await begun(loading)
    await loading.engine(answer=whole(b'{"id":"x"}'))
    answer = await client.answer()
    assert (answer.is_complete, answer.body) == (True, COMMENT + b'data: {"id":"x"}\n\n')


@pytest.mark.parametrize("what", [Do.CLOSE, END])
async def test_stream_that_breaks_off_within_it_is_told_as_any_other(loading, what):
    client = await begun(loading)
    engine = await loading.engine(models=("other",))
    engine.always(EVENTS + chunk(event("a")), what)
    loading.change_endpoint("e1", models=(MODEL,))
    assert await client.end() is End.CLOSED
    assert event("a") in client.raw
    assert b'"code":"stream_truncated"' in last_event(client)
    assert not client.raw.endswith(END)


async def test_client_that_leaves_takes_the_wish_with_it(loading):
    client = await begun(loading)
    client.leave()
    await loading.until(lambda: loading.stats.loads.held == {})
    assert loading.states == {"cancelled": 1}


@pytest.mark.parametrize("is_sent", [False, True], ids=["while it waits", "at an engine"])
async def test_client_that_half_closes_within_it_is_let_go(loading, is_sent):
    """Nothing may come between comments and answer, so nothing can ask it whether it is there."""
    client = await begun(loading)
    if is_sent:
        engine = await loading.engine(models=("other",))
        engine.always(Do.HOLD)
        loading.change_endpoint("e1", models=(MODEL,))
        await engine.asked()
    client.half_close()
    await client.end()
    await loading.settled()
    assert loading.states == {"cancelled": 1}
    assert b"100 Continue" not in client.raw


async def test_gateway_that_stops_tells_it_within_the_stream(loading):
    client = await begun(loading)
    await loading.gateway.drain(0.05)
    await client.end()
    assert b'"code":"shutting_down"' in last_event(client)


HTTP10 = (
    b'POST /v1/chat/completions HTTP/1.0\r\nContent-Length: 27\r\n\r\n{"model":"m","stream":true}'
)


@pytest.mark.parametrize("request_", [post(ASK), HTTP10], ids=["no stream", "HTTP/1.0"])
async def test_other_answers_do_not_begin_early(loading, request_):
    client = await loading.send(request_)
    await loading.until(lambda: loading.stats.loads.held.get(MODEL) == 1)
    loading.clock.advance(11)
    await asyncio.sleep(0.4)
    assert client.raw == b""
    loading.clock.advance(15)
    assert (await client.answer()).status == 503


async def test_nothing_begins_early_unless_it_is_wanted(loading):
    loading.let_in(load_requests=Wishes(), on_demand={"hold_s": 25})
    client = await loading.send(post(STREAM))
    await loading.until(lambda: loading.stats.loads.held.get(MODEL) == 1)
    loading.clock.advance(11)
    await asyncio.sleep(0.4)
    assert client.raw == b""
    client.leave()
