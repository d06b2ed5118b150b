"""What an answer cost is known however it comes, and the client sees only what he asked for."""

from __future__ import annotations

import orjson
import pytest

from llmgw.gateway.usage import Usage
from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import End, post
from tests.fakes.upstream import CHUNKED, DONE, END, EVENTS, Do, chunk, event, head, whole

STREAM = {**ASK, "stream": True}
EXTRA = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
FINISHED = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
WISH = {"include_usage": True}
HTTP10 = (
    b'POST /v1/chat/completions HTTP/1.0\r\nContent-Length: 27\r\n\r\n{"model":"m","stream":true}'
)


@pytest.fixture
def accounts(stage):
    """The requests that have ended, as the books have them."""
    stage.request_log = log = KeepingLog()
    return log.kept


class KeepingLog:
    """In place of a ``RequestLog``."""

    dropped_lines = 0

    def __init__(self):
        self.kept = []
        self.add = self.kept.append

    def start(self):
        pass

    def flush(self):
        pass

    def close(self):
        pass


async def test_usage_is_asked_for_and_its_chunk_taken_out_again(stage, accounts):
    engine = await stage.engine(
        answer=EVENTS + chunk(event("a")) + chunk(EXTRA) + chunk(DONE) + END
    )
    answer = await stage.ask(STREAM)
    assert engine.requests[0].json == {**STREAM, "stream_options": WISH}
    assert (answer.is_complete, answer.body) == (True, event("a") + DONE)
    [account] = accounts
    assert account.usage == Usage(9, 4)


@pytest.mark.parametrize("prompt", ["hi", "hi " * 8000], ids=["short", "long"])
async def test_client_that_asks_itself_gets_the_chunk(stage, accounts, prompt):
    sent = chunk(event("a")) + chunk(EXTRA) + chunk(DONE) + END
    engine = await stage.engine(answer=EVENTS + sent)
    messages = [{"role": "user", "content": prompt}]
    asked = {**STREAM, "messages": messages, "stream_options": WISH}
    client = await stage.send(post(asked))
    await client.answer()
    assert engine.requests[0].json == asked
    assert client.raw.endswith(b"\r\n\r\n" + sent)
    assert accounts[0].usage == Usage(9, 4)


async def test_streams_pass_the_same_wherever_they_are_split(stage, accounts):
    engine = await stage.engine()
    client = await stage.client()
    sent = chunk(event("a") + event("é")) + chunk(EXTRA + DONE) + END
    for position in range(1, len(sent)):
        engine.once(EVENTS + sent[:position], sent[position:])
        client.send(post(STREAM))
        answer = await client.answer()
        assert (answer.is_complete, answer.body) == (True, event("a") + event("é") + DONE)
    assert engine.connections == 1
    assert {account.usage for account in accounts} == {Usage(9, 4)}
    assert stage.stats.totals.truncated == 0


async def test_events_may_lie_across_chunks_and_reads(stage, accounts):
    payload = event("a") + EXTRA + event("b") + DONE
    pieces = b"".join(chunk(payload[n : n + 7]) for n in range(0, len(payload), 7)) + END
    engine = await stage.engine()
    engine.always(EVENTS, *(pieces[n : n + 11] for n in range(0, len(pieces), 11)))
    answer = await stage.ask(STREAM)
    assert (answer.is_complete, answer.body) == (True, event("a") + event("b") + DONE)
    assert accounts[0].usage == Usage(9, 4)


@pytest.mark.parametrize(
    ("steps", "is_whole"),
    [
        pytest.param(
            (head(200, "Content-Type: text/event-stream"), event("a"), EXTRA, DONE, Do.CLOSE),
            True,
            id="until the close",
        ),
        pytest.param((EVENTS + chunk(event("a")) + chunk(EXTRA), Do.CLOSE), False, id="cut"),
        pytest.param((EVENTS + chunk(event("a") + EXTRA[:20]), Do.CLOSE), False, id="cut within"),
        pytest.param((EVENTS + chunk(event("a")) + chunk(EXTRA) + END,), False, id="no end"),
        pytest.param((EVENTS + chunk(event("a")), b"9\r\ndat", Do.RESET), False, id="reset"),
    ],
)
@pytest.mark.parametrize("request_", [post(STREAM), HTTP10], ids=["HTTP/1.1", "HTTP/1.0"])
async def test_every_framing_and_every_cut_is_told_without_the_chunk(
    stage, steps, is_whole, request_
):
    engine = await stage.engine()
    engine.always(*steps)
    client = await stage.send(request_)
    await client.end()
    assert b'"usage":{' not in client.raw
    assert event("a").strip() in client.raw
    assert (b"[DONE]" in client.raw) is is_whole
    assert (b"stream_truncated" in client.raw) is not is_whole


@pytest.mark.parametrize("is_at_once", [True, False], ids=["in one read", "later"])
async def test_stream_of_announced_length_keeps_its_length(stage, accounts, is_at_once):
    payload = event("a") + EXTRA + DONE
    begin = head(200, "Content-Type: text/event-stream", f"Content-Length: {len(payload)}")
    engine = await stage.engine()
    engine.always(*((begin + payload,) if is_at_once else (begin + payload[:90], payload[90:])))
    answer = await stage.ask(STREAM)
    assert answer.is_complete
    assert len(answer.body) == len(payload)
    assert b"usage" not in answer.body
    assert accounts[0].usage == Usage(9, 4)


async def test_connection_of_a_client_goes_on_after_such_a_stream(stage):
    engine = await stage.engine(answer=EVENTS + chunk(event("a") + EXTRA + DONE) + END)
    client = await stage.client()
    for _ in range(3):
        client.send(post(STREAM))
        assert (await client.answer()).is_complete
    assert engine.connections == 1


async def test_endpoint_that_refuses_the_wish_is_not_asked(stage, accounts):
    engine = await stage.engine(
        answer=EVENTS + chunk(event("a")) + chunk(EXTRA) + chunk(DONE) + END,
        usage_injection=False,
    )
    answer = await stage.ask(STREAM)
    assert engine.requests[0].json == STREAM
    assert EXTRA in answer.body
    assert accounts[0].usage == Usage(9, 4)


async def test_each_attempt_asks_as_its_endpoint_allows(stage):
    first = await stage.engine("e1", priority=1, answer=whole(status=500), usage_injection=False)
    second = await stage.engine("e2", answer=EVENTS + chunk(EXTRA) + chunk(DONE) + END)
    answer = await stage.ask(STREAM)
    assert "stream_options" not in first.requests[0].json
    assert second.requests[0].json["stream_options"] == WISH
    assert answer.body == DONE


async def test_nothing_is_asked_of_what_does_not_stream(stage):
    engine = await stage.engine()
    body = b'{"model" : "m","x":1.0}'
    await stage.ask(body)
    await stage.ask({**STREAM, "input": "a"}, path="/v1/embeddings")
    assert engine.requests[0].body == body
    assert "stream_options" not in engine.requests[1].json


# Where it is read


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((whole,), id="whole"),
        pytest.param((lambda body: CHUNKED + chunk(body) + END,), id="chunks"),
        pytest.param(
            (lambda body: head(200, f"Content-Length: {len(body)}") + body[:5], lambda b: b[5:]),
            id="pieces",
        ),
    ],
)
@pytest.mark.parametrize("filling", [10, 300_000])
async def test_usage_of_a_whole_answer_is_read_from_its_end(stage, accounts, steps, filling):
    said = {"prompt_tokens": 3, "completion_tokens": 2}
    body = orjson.dumps({"data": "x" * filling, "usage": said})
    engine = await stage.engine()
    engine.always(*(step(body) for step in steps))
    answer = await stage.ask()
    assert answer.body == body
    assert accounts[0].usage == Usage(3, 2)


async def test_answer_that_does_not_say_is_estimated_and_marked(stage, accounts):
    engine = await stage.engine()
    sent = [chunk(event(text)) for text in "abc"]
    engine.once(EVENTS, *sent, chunk(FINISHED), chunk(DONE) + END)
    engine.once(whole(b"x" * 40))
    await stage.ask(STREAM)
    await stage.ask()
    streamed, whole_one = (account.usage for account in accounts)
    assert streamed.is_estimated
    assert streamed.completion_tokens == 2
    assert streamed.prompt_tokens == len(orjson.dumps(STREAM)) // 4
    assert whole_one == Usage(len(orjson.dumps(ASK)) // 4, 10, is_estimated=True)


async def test_refused_and_failed_requests_cost_nothing(stage, accounts):
    engine = await stage.engine()
    engine.once(whole(b'{"usage":{"prompt_tokens":3,"completion_tokens":2}}', status=400))
    await stage.ask()
    await stage.ask({"model": "nobody"})
    assert [account.usage for account in accounts] == [None, None]


async def test_client_that_leaves_is_charged_what_was_seen(stage, accounts):
    engine = await stage.engine()
    engine.always(EVENTS + b"".join(chunk(event("x")) for _ in range(5)), Do.HOLD)
    client = await stage.send(post(STREAM))
    await client.got(event("x") * 1)
    client.leave()
    await stage.settled()
    assert accounts[0].usage.is_estimated
    assert accounts[0].usage.completion_tokens == 4
    assert accounts[0].state == "cancelled"


async def test_memory_of_the_tap_does_not_grow_with_the_answer(stage):
    engine = await stage.engine()
    engine.always(head(200, "Content-Length: 9000000"), b"x" * 4_000_000, b"y" * 100, Do.HOLD)
    client = await stage.send(post(ASK))
    await client.got(b"y" * 100)
    [connection] = stage.gateway._reception.connections
    relay = connection.work._relay
    assert len(relay._end_of_text()) + len(relay._begin) <= 20 * 1024


async def test_tap_of_a_stream_is_bounded_whatever_its_events(stage):
    engine = await stage.engine()
    long = chunk(event("x" * 200_000))
    engine.always(EVENTS, long, long, chunk(event("y")) * 50, chunk(event("z")), Do.HOLD)
    client = await stage.send(post({**STREAM, "stream_options": WISH}))
    await client.got(event("z"))
    [connection] = stage.gateway._reception.connections
    relay = connection.work._relay
    assert len(relay._end_of_text()) <= 10 * 1024


async def test_stream_that_finished_without_done_is_complete_and_noted(stage, accounts):
    engine = await stage.engine()
    engine.once(EVENTS + chunk(event("a")) + chunk(FINISHED) + END)
    engine.once(EVENTS + chunk(event("a")) + chunk(FINISHED) + chunk(DONE) + END)
    client = await stage.send(post(STREAM))
    assert (await client.answer()).is_complete
    await stage.ask(STREAM)
    assert [account.lacks_done for account in accounts] == [True, False]
    assert [account.cut for account in accounts] == [None, None]


async def test_cut_stream_ends_as_broken_also_while_an_event_is_held_back(stage):
    engine = await stage.engine()
    engine.always(EVENTS + chunk(event("a")), b"5\r\ndata:", 0.05, Do.CLOSE)
    client = await stage.send(post(STREAM))
    assert await client.end() is End.CLOSED
    answer = await client.answer()
    assert answer.body.startswith(event("a") + b"data:\n\ndata: {")
