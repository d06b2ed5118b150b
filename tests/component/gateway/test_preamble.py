"""Comments that an engine sends while it reads a prompt are no answer yet, and are not lost."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import post
from tests.fakes.upstream import CHUNKED, DONE, END, EVENTS, Do, chunk, event, head, stream

PING = b": ping\n\n"
STREAM = {**ASK, "stream": True}
ASKS_ITSELF = {**STREAM, "stream_options": {"include_usage": True}}
HTTP10 = (
    b'POST /v1/chat/completions HTTP/1.0\r\nContent-Length: 27\r\n\r\n{"model":"m","stream":true}'
)


@pytest.mark.parametrize("kind", ["llamacpp", "vllm", ""], ids=["llamacpp", "vllm", "unknown"])
@pytest.mark.parametrize("end", [Do.CLOSE, Do.RESET])
async def test_engine_that_sent_comments_alone_is_replaced_by_another(stage, end, kind):
    """Of whatever kind: where nobody named it, it is known by its metrics alone, or not at all."""
    engine = await stage.engine("e1", priority=1, engine=kind)
    engine.always(EVENTS + chunk(PING), 0.01, chunk(PING), end)
    await stage.engine("e2", answer=stream("a"))
    answer = await stage.ask(STREAM)
    assert (answer.body, answer["x-llmgw-attempts"]) == (event("a") + DONE, "2")


@pytest.mark.parametrize("request_", [post(STREAM), post(ASKS_ITSELF), HTTP10], ids=repr)
async def test_comments_come_in_front_of_the_first_word_wherever_they_are_split(stage, request_):
    """Byte by byte: nothing of them is lost, twice there or out of order."""
    engine = await stage.engine()
    payload = PING + b":\r\n\r\n" + event("a") + DONE
    sent = chunk(PING) + chunk(b":\r\n") + chunk(b"\r\n") + chunk(event("a")) + chunk(DONE) + END
    for position in range(1, len(sent)):
        engine.once(EVENTS + sent[:position], sent[position:])
        client = await stage.send(request_)
        answer = await client.answer()
        assert (answer.is_complete, answer.body) == (True, payload), position
    engine.always(EVENTS, *(sent[n : n + 1] for n in range(len(sent))))
    client = await stage.send(request_)
    assert (await client.answer()).body == payload


@pytest.mark.parametrize("begin", [EVENTS, head(200, "Content-Type: text/event-stream")])
async def test_client_hears_nothing_before_the_first_word(stage, begin):
    is_chunked = begin is EVENTS
    engine = await stage.engine()
    go_on = asyncio.Event()
    framed = chunk if is_chunked else bytes
    last = (chunk(DONE) + END,) if is_chunked else (DONE, Do.CLOSE)
    engine.always(begin, framed(PING), 0.05, framed(PING), go_on, framed(event("a")), *last)
    client = await stage.send(post(STREAM))
    await engine.asked()
    await asyncio.sleep(0.15)
    assert client.raw == b""
    go_on.set()
    assert (await client.answer()).body == PING + PING + event("a") + DONE


async def test_what_looks_like_a_comment_is_an_answer_where_there_are_no_events(stage):
    engine = await stage.engine()
    engine.always(CHUNKED + chunk(PING), Do.HOLD)
    client = await stage.send(post(ASK))
    await client.got(PING)
    assert client.raw.startswith(b"HTTP/1.1 200 ")
    client.leave()


async def test_more_comments_than_are_held_back_are_an_answer(stage):
    engine = await stage.engine()
    engine.always(EVENTS, *[chunk(b":" + b"x" * 9_000 + b"\n")] * 7, Do.HOLD)
    client = await stage.send(post(ASKS_ITSELF))
    await stage.until(lambda: engine.sent_bytes > 60_000)
    await asyncio.sleep(0.05)
    assert client.raw == b""
    engine.always(EVENTS, *[chunk(b":" + b"x" * 9_000 + b"\n")] * 8, Do.HOLD)
    other = await stage.send(post(ASKS_ITSELF))
    await other.got(b"x" * 9_000)
    client.leave()
    other.leave()


@ON_ONE_LOOP
async def test_comments_lengthen_no_time_and_are_not_the_first_token(stage):
    """The bound until the first byte counts from the head, and so does what is measured."""
    stage.clock = clock = FakeClock()
    stage.tune(dispatch={"response_timeout_s": 100, "max_attempts": 1})
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.once(EVENTS + chunk(PING), go_on, chunk(event("a")) + chunk(DONE) + END)
    engine.once(EVENTS, *[chunk(PING), 0.02] * 100, Do.HOLD)
    client = await stage.send(post(STREAM))
    await engine.asked()
    await asyncio.sleep(0.05)
    clock.advance(60)
    go_on.set()
    assert (await client.answer()).is_complete
    assert stage.stats.totals.by_model["m"].ttft_sum_s == pytest.approx(60, abs=1)
    client = await stage.send(post(STREAM))
    await engine.asked(2)
    await asyncio.sleep(0.1)
    clock.advance(101)
    assert (await client.answer()).code == "no_first_byte"
