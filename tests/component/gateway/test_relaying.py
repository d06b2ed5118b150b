"""What an engine answers reaches the client byte for byte, and nothing else does."""

from __future__ import annotations

import pytest

from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import End, get, post
from tests.fakes.upstream import CHUNKED, DONE, END, EVENTS, Do, chunk, event, head, stream, whole

ASKS_ITSELF = {**ASK, "stream": True, "stream_options": {"include_usage": True}}
"""A request whose stream needs nothing taken out."""


def body_as_sent(client):
    """What came after the head of the first final answer."""
    return bytes(client.raw.partition(b"\r\n\r\n")[2])


async def test_stream_of_ten_thousand_events_passes_byte_for_byte(stage):
    engine = await stage.engine()
    sent = b"".join(chunk(event(f"token {n}")) for n in range(10_000)) + chunk(DONE) + END
    pieces = [sent[n : n + 3989] for n in range(0, len(sent), 3989)]
    engine.always(EVENTS, *pieces)
    client = await stage.send(post(ASKS_ITSELF))
    answer = await client.answer(within_s=20)
    assert answer.is_complete
    assert body_as_sent(client) == sent
    assert stage.stats.totals.events == 10_001
    assert stage.states == {"completed": 1}


async def test_stream_passes_byte_for_byte_wherever_it_is_split(stage):
    engine = await stage.engine()
    client = await stage.client()
    sent = chunk(event("a")) + chunk(event("é")) + chunk(DONE) + END
    for position in range(1, len(sent)):
        engine.once(EVENTS + sent[:position], sent[position:])
        client.raw.clear()
        client.send(post(ASK))
        answer = await client.answer()
        assert (answer.is_complete, body_as_sent(client)) == (True, sent)
    assert engine.connections == 1
    assert stage.stats.totals.truncated == 0


async def test_stream_passes_byte_for_byte_one_byte_at_a_time(stage):
    engine = await stage.engine()
    sent = chunk(event("a") + event("b")) + chunk(b": ") + chunk(b"\n\n" + DONE) + END
    engine.always(EVENTS, *(sent[n : n + 1] for n in range(len(sent))))
    client = await stage.send(post(ASK))
    assert (await client.answer()).is_complete
    assert body_as_sent(client) == sent


async def test_head_passes_wherever_it_is_split(stage):
    engine = await stage.engine()
    client = await stage.client()
    sent = whole(b"body")
    for position in range(1, len(sent)):
        engine.once(sent[:position], sent[position:])
        client.send(post(ASK))
        answer = await client.answer()
        assert (answer.status, answer.body) == (200, b"body")
    assert (engine.connections, len(engine.requests)) == (1, len(sent) - 1)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((head(200, "Content-Length: 3") + b"abc",), id="length"),
        pytest.param((head(200, "Content-Length: 3") + b"a", b"bc"), id="length in pieces"),
        pytest.param((CHUNKED + chunk(b"a") + chunk(b"bc") + END,), id="chunks"),
        pytest.param((head(200) + b"a", b"bc", Do.CLOSE), id="until the close"),
        pytest.param((b"HTTP/1.0 200 OK\r\n\r\nabc", Do.CLOSE), id="HTTP/1.0"),
        pytest.param((b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc",), id="no reason phrase"),
        pytest.param((head(200, "Content-Length: 3", "Connection: close") + b"abc",), id="closes"),
    ],
)
async def test_any_framing_of_an_answer_is_understood(stage, steps):
    engine = await stage.engine()
    engine.always(*steps)
    client = await stage.send(post(ASK))
    answer = await client.answer()
    assert (answer.status, answer.body, answer.is_complete) == (200, b"abc", True)
    ends_at_close = Do.CLOSE in steps
    assert (answer["connection"] == "close") is ends_at_close
    if ends_at_close:
        assert await client.end() is End.CLOSED


async def test_answer_until_the_close_says_close_to_the_client(stage):
    """Or the client would wait for an end that its own connection never shows."""
    engine = await stage.engine()
    engine.always(head(200) + b"abc", Do.CLOSE)
    answer = await stage.ask()
    assert (answer["connection"], answer["content-length"], answer.body) == ("close", None, b"abc")


async def test_binary_body_passes_as_it_is(stage):
    body = bytes(range(256)) * 5000
    await stage.engine(answer=whole(body))
    assert (await stage.ask()).body == body


@pytest.mark.parametrize("status", [100, 102, 103])
async def test_interim_answers_of_an_engine_are_not_shown(stage, status):
    engine = await stage.engine()
    interim = head(status, "Link: </x>", reason="Interim")
    engine.once(interim + interim + whole(b"1"))
    engine.once(interim, whole(b"2"))
    engine.once(interim[:9], interim[9:] + interim, head(200, "Content-Length: 1"), b"3")
    client = await stage.client()
    for expected in (b"1", b"2", b"3"):
        client.send(post(ASK))
        answer = await client.answer()
        assert (answer.status, answer.body, answer["link"]) == (200, expected, None)
    assert client.interim == []
    assert engine.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(whole(b"abc"), id="length"),
        pytest.param(CHUNKED + chunk(b"abc") + END, id="chunks"),
        pytest.param(head(204), id="no body"),
    ],
)
@pytest.mark.parametrize("is_at_once", [True, False], ids=["in one read", "later"])
async def test_bytes_after_the_end_reach_nobody_and_cost_the_connection(stage, answer, is_at_once):
    """A second answer that nobody asked for must not become somebody's."""
    engine = await stage.engine()
    extra = whole(b"evil", "X-Evil: yes")
    engine.once(*((answer + extra,) if is_at_once else (answer, extra)))
    client = await stage.send(post(ASK))
    await client.answer()
    await engine.until(lambda: not engine.open)
    client.send(post(ASK))
    assert (await client.answer()).body == b'{"id":"x"}'
    assert b"evil" not in client.raw.lower()
    assert engine.connections == 2


NAMES_CHUNKS = head(200, "Transfer-Encoding: chunked", "Connection: transfer-encoding")


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        (whole(b"ok", "Connection: content-length"), "content-length"),
        (NAMES_CHUNKS + chunk(b"ok") + END, "transfer-encoding"),
    ],
    ids=["length", "chunks"],
)
async def test_engine_cannot_hide_where_its_answer_ends(stage, sent, field):
    """A field that `Connection` names is dropped, but for those that tell clients of the end."""
    await stage.engine(answer=sent)
    client = await stage.send(post(ASK) * 2)
    for _ in range(2):
        answer = await client.answer()
        assert (answer.body, answer.is_complete) == (b"ok", True)
        assert answer[field] is not None


@pytest.mark.parametrize("field", ["Content-Length: 0", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("status", [204, 304])
async def test_status_without_a_body_announces_none_whatever_the_engine_says(stage, status, field):
    await stage.engine(answer=head(status, field))
    answer = await stage.ask()
    assert (answer.status, answer.body, answer.is_complete) == (status, b"", True)
    assert (answer["content-length"], answer["transfer-encoding"]) == (None, None)


async def test_body_of_a_status_without_a_body_reaches_nobody(stage):
    engine = await stage.engine()
    engine.once(head(304, "Content-Length: 5") + b"hello")
    client = await stage.send(post(ASK))
    client.parses = False
    await client.got(b"\r\n\r\n")
    await engine.until(lambda: not engine.open)
    assert b"hello" not in client.raw


SURPLUS = b"0005 ;a=b\r\nhello\r\n5;x\r\nworld\r\n"
WITH_TRAILER = b"0;z\r\nSet-Cookie: a=b\r\nX-T: 1\r\n\r\n"


@pytest.mark.parametrize("begin", [b"", chunk(b"first")], ids=["at once", "later"])
async def test_what_chunks_carry_beside_the_body_reaches_no_client(stage, begin):
    """Padding, extensions and trailers: two readers could read them differently."""
    engine = await stage.engine()
    sent = begin + SURPLUS + WITH_TRAILER
    body = (b"first" if begin else b"") + b"helloworld"
    client = await stage.client()
    for steps in ((CHUNKED + sent,), (CHUNKED, *(sent[n : n + 1] for n in range(len(sent))))):
        engine.once(*steps)
        seen = len(client.raw)
        client.send(post(ASK))
        answer = await client.answer()
        assert (answer.body, answer.is_complete) == (body, True)
        assert b";" not in client.raw[seen:]
        assert b"a=b" not in client.raw[seen:]
    assert engine.connections == 1
    assert stage.states == {"completed": 2}


async def test_trailer_without_an_end_holds_no_client(stage):
    engine = await stage.engine()
    engine.always(CHUNKED + chunk(b"all"), b"0\r\n", *[b"X-T: 1\r\n"] * 100, Do.HOLD)
    client = await stage.send(post(ASK))
    answer = await client.answer()
    assert (answer.body, answer.is_complete) == (b"all", False)
    await engine.aborted()
    assert b"X-T" not in client.raw


async def test_length_besides_chunks_never_reaches_the_client(stage):
    """Two readers would read such an answer differently."""
    stage.tune(dispatch={"max_attempts": 1})
    engine = await stage.engine()
    both = head(200, "Content-Length: 3", "Transfer-Encoding: chunked")
    engine.always(both + chunk(b"abcdef") + END)
    answer = await stage.ask()
    assert answer.status == 502 or (answer["content-length"], answer.body) == (None, b"abcdef")


# Connections to engines


async def test_connection_to_an_engine_carries_one_request_after_the_other(stage):
    engine = await stage.engine()
    for answer in (whole(), stream("a"), head(204), whole(status=500), CHUNKED + END):
        engine.once(answer)
    for _ in range(6):
        await stage.ask()
    assert (engine.connections, len(engine.requests)) == (1, 7)
    assert stage.endpoint_stats().idle_connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        head(200, "Content-Length: 2", "Connection: close") + b"ok",
        head(200, "Transfer-Encoding: chunked", "Connection: close") + chunk(b"ok") + END,
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
)
async def test_connection_that_the_engine_does_not_keep_is_not_kept(stage, answer):
    engine = await stage.engine(answer=answer)
    for _ in range(2):
        assert (await stage.ask()).body == b"ok"
    assert engine.connections == 2
    assert stage.endpoint_stats().idle_connections == 0


async def test_stale_connection_costs_no_attempt(stage):
    """The engine closed it at the very moment that the request was sent."""
    stage.tune(dispatch={"max_attempts": 1})
    engine = await stage.engine()
    for what in (Do.CLOSE, Do.RESET):
        assert (await stage.ask()).status == 200
        engine.once(what)
        answer = await stage.ask()
        assert (answer.status, answer["x-llmgw-attempts"]) == (200, "1")
    assert stage.failed_attempts == {}
    assert not stage.endpoint_stats().is_breaker_open


async def test_fresh_connection_after_a_stale_one_may_fail_like_any_other(stage):
    stage.tune(dispatch={"max_attempts": 1})
    engine = await stage.engine()
    await stage.ask()
    engine.once(Do.CLOSE)
    engine.once(Do.CLOSE)
    answer = await stage.ask()
    assert (answer.status, answer.code) == (502, "upstream_unreachable")
    assert len(engine.requests) == 3


async def test_kept_connection_that_breaks_after_a_byte_is_a_failed_attempt(stage):
    stage.tune(dispatch={"max_attempts": 1})
    engine = await stage.engine()
    await stage.ask()
    engine.once(b"HTTP/1.1 ", Do.CLOSE)
    assert (await stage.ask()).code == "upstream_unreachable"
    assert len(engine.requests) == 2


async def test_kept_connection_that_the_engine_closed_is_forgotten(stage):
    engine = await stage.engine()
    await stage.ask()
    engine.close_idle()
    await stage.until(lambda: stage.endpoint_stats().idle_connections == 0)
    assert (await stage.ask()).status == 200
    assert engine.connections == 2


async def test_redirect_is_never_followed(stage):
    target = await stage.engine("e2", models=("other",))
    engine = await stage.engine(answer=whole(b"", f"Location: {target.url}/v1", status=307))
    answer = await stage.ask()
    assert (answer.status, answer["location"]) == (307, f"{target.url}/v1")
    assert (len(engine.requests), target.connections) == (1, 0)


async def test_connection_goes_on_after_each_kind_of_answer(stage):
    engine = await stage.engine()
    answers = [whole(b"a"), stream("b"), whole(b"c", status=400), head(204)]
    client = await stage.client()
    for answer in answers * 2:
        engine.once(answer)
        client.send(post(ASK))
        assert (await client.answer()).is_complete
    client.send(get("/health"))
    assert (await client.answer()).status == 200
