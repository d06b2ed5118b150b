"""A stream that breaks off is told as broken: one event of ours, no invented end."""

from __future__ import annotations

import orjson
import pytest

from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import End, post
from tests.fakes.upstream import CHUNKED, DONE, END, EVENTS, Do, chunk, event, head

HTTP10 = b'POST /v1/chat/completions HTTP/1.0\r\nContent-Length: 13\r\n\r\n{"model":"m"}'
EVENTS_OF_LENGTH = "Content-Type: text/event-stream", "Content-Length: 10000"
UNTIL_CLOSE = head(200, "Content-Type: text/event-stream")
FINISHED = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'


def last_words(body):
    """The events of a body and, apart, the error that the last of them tells."""
    events, _, last = bytes(body).rstrip(b"\n").rpartition(b"\n\ndata: ")
    return events, orjson.loads(last)["error"]


@pytest.mark.parametrize(
    ("steps", "ended"),
    [
        pytest.param((EVENTS + chunk(event("a")), Do.CLOSE), End.CLOSED, id="chunks and a close"),
        pytest.param((EVENTS + chunk(event("a")), Do.RESET), End.CLOSED, id="chunks and a reset"),
        pytest.param((EVENTS + chunk(event("a")) + END,), End.CLOSED, id="an end without a word"),
        pytest.param((EVENTS + chunk(event("a")), END), End.CLOSED, id="such an end, later"),
        pytest.param((EVENTS + chunk(event("a")), b"zz\r\n"), End.CLOSED, id="no chunk size"),
        pytest.param((EVENTS + chunk(event("a")), b"5", b"zz\r\n"), End.CLOSED, id="half a size"),
        pytest.param((EVENTS + chunk(event("a")), b"\r\n"), End.CLOSED, id="an empty size"),
        pytest.param((head(200, *EVENTS_OF_LENGTH), event("a"), Do.CLOSE), End.CLOSED, id="length"),
        pytest.param((UNTIL_CLOSE + event("a"), Do.CLOSE), End.RESET, id="until the close"),
        pytest.param((UNTIL_CLOSE + event("a"), Do.RESET), End.RESET, id="until the close, reset"),
    ],
)
async def test_stream_of_events_that_breaks_off_ends_with_an_error_event(stage, steps, ended):
    engine = await stage.engine()
    engine.always(*steps)
    client = await stage.send(post({**ASK, "stream": True}, "X-Request-Id: mine"))
    assert await client.end() is ended
    answer = await client.answer()
    events, error = last_words(answer.body)
    assert events.strip() == event("a").strip()
    assert error["type"] == "upstream_error"
    assert error["code"] == "stream_truncated"
    assert error["request_id"] == "mine"
    assert not answer.is_complete
    assert b"DONE" not in client.raw
    assert b"finish_reason" not in client.raw
    await stage.settled()
    assert stage.states == {"completed": 1}
    assert stage.stats.totals.truncated == 1
    assert engine.connections == 1


async def test_stream_that_breaks_off_is_the_endpoint_s_fault(stage):
    """Row 25."""
    stage.tune(breaker={"failure_threshold": 1})
    engine = await stage.engine()
    engine.always(EVENTS + chunk(event("a")), Do.CLOSE)
    await (await stage.send(post(ASK))).end()
    assert stage.endpoint_stats().is_breaker_open


async def test_stream_that_broke_off_is_not_tried_again(stage):
    engine = await stage.engine("e1", priority=1)
    other = await stage.engine("e2")
    engine.always(EVENTS + chunk(event("a")), Do.RESET)
    await (await stage.send(post(ASK))).end()
    assert (len(engine.requests), other.connections) == (1, 0)


async def test_wherever_a_stream_is_cut_the_client_can_read_the_error(stage):
    """Every byte position but within an extension and the end, where nothing can be said."""
    stage.tune(dispatch={"max_attempts": 1}, breaker={"failure_threshold": 1000})
    engine = await stage.engine()
    payload = event("a") + event("b") + DONE
    first = EVENTS + chunk(event("a"))
    rest = b"%x;e=1\r\n%b\r\n" % (len(event("b")), event("b")) + chunk(DONE) + END
    for position in range(len(rest) - 1):
        engine.once(first, rest[:position], Do.CLOSE)
        client = await stage.send(post(ASK))
        assert await client.end() is End.CLOSED
        answer = await client.answer()
        assert (answer.status, answer.is_complete) == (200, False), position
        if b"stream_truncated" in answer.body:
            events, error = last_words(answer.body)
            assert error["code"] == "stream_truncated"
            assert payload.startswith(events), position
        else:
            assert b";" in rest[:position][-4:] or position > len(rest) - len(END), position
            assert payload.startswith(answer.body)
    assert stage.stats.totals.truncated == len(rest) - 1


async def test_wherever_an_end_comes_too_early_the_client_can_read_the_error(stage):
    """A clean end of the framing, without the stream's own word that it is complete."""
    engine = await stage.engine()
    sent = chunk(event("a")) + chunk(event("b")) + END
    for position in range(len(sent)):
        engine.once(EVENTS, sent[:position], sent[position:])
        client = await stage.send(post(ASK))
        assert await client.end() is End.CLOSED
        answer = await client.answer()
        assert not answer.is_complete, position
        if position <= len(sent) - len(END):
            events, error = last_words(answer.body)
            assert events.strip() == (event("a") + event("b")).strip(), position
            assert error["code"] == "stream_truncated"
        assert b"DONE" not in client.raw


@pytest.mark.parametrize(
    "end",
    [
        pytest.param([DONE], id="done"),
        pytest.param([b"data:[DONE]\n\n"], id="done without a space"),
        pytest.param([FINISHED], id="a finish reason"),
        pytest.param([FINISHED.replace(b'":"', b'": "')], id="a finish reason after a space"),
        pytest.param([DONE[:9], DONE[9:]], id="done in two chunks"),
        pytest.param([bytes([byte]) for byte in DONE], id="done in chunks of a byte"),
        pytest.param([DONE, b": ping\n\n" * 20], id="comments after it"),
        pytest.param([b"data: " + b"x" * 5000 + b"\n\n" + DONE], id="a long event before it"),
    ],
)
@pytest.mark.parametrize("framing", ["chunks", "close"])
async def test_stream_that_said_its_end_is_complete(stage, end, framing):
    engine = await stage.engine()
    if framing == "chunks":
        engine.always(EVENTS, chunk(event("a")), *map(chunk, end), END)
    else:
        engine.always(UNTIL_CLOSE, event("a"), *end, Do.CLOSE)
    client = await stage.send(post(ASK))
    answer = await client.answer()
    assert (answer.is_complete, answer.body) == (True, event("a") + b"".join(end))
    assert stage.stats.totals.truncated == 0


@pytest.mark.parametrize("text", ["data: [DONE]", '"finish_reason": "stop"', "\ndata: [DONE]\n"])
async def test_stream_that_breaks_off_while_it_speaks_of_ends_is_not_complete(stage, text):
    engine = await stage.engine()
    engine.always(EVENTS, chunk(event(text)) + END)
    client = await stage.send(post(ASK))
    await client.end()
    assert b"stream_truncated" in client.raw


async def test_stream_that_breaks_off_within_a_bad_size_ends_quietly(stage):
    """Nothing legal can follow what the client has already."""
    engine = await stage.engine()
    engine.always(EVENTS + chunk(event("a")), b"zz", 0.01, Do.CLOSE)
    client = await stage.send(post(ASK))
    client.parses = False
    assert await client.end() is End.CLOSED
    assert client.raw.endswith(b"\r\nzz")


async def test_error_event_of_the_engine_is_passed_on(stage):
    """Its own words first, then ours: the engine did not say that it was complete."""
    engine = await stage.engine()
    own = b'data: {"error":{"message":"out of memory"}}\n\n'
    engine.always(EVENTS, chunk(event("a")), chunk(own) + END)
    client = await stage.send(post(ASK))
    await client.end()
    assert own in client.raw


@pytest.mark.parametrize(
    ("begin", "ended"),
    [
        pytest.param(CHUNKED + chunk(b"part"), End.CLOSED, id="chunks"),
        pytest.param(CHUNKED + b"9\r\npart", End.CLOSED, id="within a chunk"),
        pytest.param(head(200, "Content-Length: 9") + b"part", End.CLOSED, id="length"),
    ],
)
@pytest.mark.parametrize("what", [Do.CLOSE, Do.RESET])
async def test_other_body_that_breaks_off_gets_nothing_added_and_no_end(stage, begin, ended, what):
    engine = await stage.engine()
    engine.always(begin, what)
    client = await stage.send(post(ASK))
    assert await client.end() is ended
    answer = await client.answer()
    assert (answer.body, answer.is_complete) == (b"part", False)
    assert stage.stats.totals.truncated == 1


async def test_body_until_the_close_that_breaks_off_ends_in_a_reset(stage):
    """A mere close would look like its end."""
    engine = await stage.engine()
    engine.always(head(200) + b"part", Do.RESET)
    client = await stage.send(post(ASK))
    assert await client.end() is End.RESET
    assert client.raw.endswith(b"part")


@pytest.mark.parametrize(
    ("begin", "what"), [(EVENTS + chunk(event("a")), Do.CLOSE), (EVENTS + chunk(event("a")), END)]
)
async def test_http10_client_is_told_too_and_reset(stage, begin, what):
    engine = await stage.engine()
    engine.always(begin, what)
    client = await stage.send(HTTP10)
    assert await client.end() is End.RESET
    events, error = last_words(client.raw.partition(b"\r\n\r\n")[2])
    assert events.strip() == event("a").strip()
    assert error["code"] == "stream_truncated"


async def test_http10_client_of_a_chunked_body_that_breaks_off_is_reset(stage):
    engine = await stage.engine()
    engine.always(CHUNKED + chunk(b"part"), Do.CLOSE)
    client = await stage.send(HTTP10)
    assert await client.end() is End.RESET
    assert client.raw.endswith(b"\r\n\r\npart")


async def test_events_of_an_error_status_are_passed_on_without_a_judgement(stage):
    stage.tune(dispatch={"max_attempts": 1})
    engine = await stage.engine()
    failed = head(500, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
    engine.always(failed, chunk(b"data: no\n\n") + END)
    answer = await stage.ask()
    assert (answer.status, answer.body, answer.is_complete) == (500, b"data: no\n\n", True)


async def test_stream_that_is_cut_because_the_gateway_stops_does_not_blame_the_engine(stage):
    engine = await stage.engine()
    engine.always(EVENTS + chunk(event("a")), Do.HOLD)
    client = await stage.send(post(ASK))
    await client.got(event("a"))
    await stage.gateway.drain(0.05)
    await client.end()
    assert b'"code":"shutting_down"' in client.raw
    assert b"The gateway is stopping" in client.raw
    assert b"stream_truncated" not in client.raw
