"""What a client may do with its connection: one request after the other, half closed, slowly."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import End, get, post
from tests.fakes.upstream import CHUNKED, DONE, END, EVENTS, Do, chunk, event, head, stream, whole

HTTP10 = b'POST /v1/chat/completions HTTP/1.0\r\nContent-Length: 13\r\n%b\r\n{"model":"m"}'


async def test_connection_carries_one_request_after_the_other(stage):
    engine = await stage.engine()
    client = await stage.client()
    for _ in range(5):
        client.send(post(ASK))
        answer = await client.answer()
        assert (answer.status, answer["connection"]) == (200, None)
    assert engine.connections == 1
    assert stage.stats.connections == 1


async def test_client_that_asks_for_it_has_its_connection_closed_after_the_answer(stage):
    await stage.engine()
    client = await stage.send(post(ASK, "Connection: close"))
    answer = await client.answer()
    assert (answer.status, answer["connection"]) == (200, "close")
    assert await client.end() is End.CLOSED


async def test_failed_request_leaves_the_connection_as_the_client_wants_it(stage):
    """An engine that cannot be reached is no reason to close, nor to stay open."""
    stage.tune(dispatch={"max_attempts": 1})
    engine = await stage.engine()
    engine.always(Do.CLOSE)
    client = await stage.send(post(ASK))
    answer = await client.answer()
    assert (answer.status, answer["connection"]) == (502, None)
    client.send(post(ASK, "Connection: close"))
    answer = await client.answer()
    assert (answer.status, answer["connection"]) == (502, "close")
    assert await client.end() is End.CLOSED


# Half close


@pytest.mark.parametrize("answer", [whole(b"late"), CHUNKED + chunk(b"late") + END])
async def test_client_that_half_closes_after_its_request_gets_its_answer(stage, answer):
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.always(go_on, answer)
    client = await stage.send(post(ASK))
    client.half_close()
    await engine.asked()
    await asyncio.sleep(0.05)
    assert engine.aborts == 0
    go_on.set()
    answer = await client.answer()
    assert (answer.status, answer.body, answer["connection"]) == (200, b"late", "close")
    assert await client.end() is End.CLOSED


async def test_client_that_half_closes_after_requests_ahead_gets_all_answers(stage):
    engine = await stage.engine()
    client = await stage.send(post(ASK) + post(ASK) + get("/health"))
    client.half_close()
    assert [(await client.answer()).status for _ in range(3)] == [200, 200, 200]
    assert await client.end() is End.CLOSED
    assert len(engine.requests) == 2


async def test_client_that_half_closes_in_the_middle_of_its_request_is_let_go(stage):
    engine = await stage.engine()
    client = await stage.send(post(ASK)[:-3])
    client.half_close()
    assert await client.end() is End.CLOSED
    assert client.raw == b""
    assert engine.connections == 0


@ON_ONE_LOOP
async def test_half_closed_client_that_leaves_much_later_is_noticed_while_it_waits(stage):
    """Nothing tells of it by itself: its kernel said all that it has to say at the half close."""
    engine = await stage.engine()
    engine.always(Do.HOLD)
    client = await stage.send(post(ASK))
    client.half_close()
    await engine.asked()
    await client.until(lambda: len(client.interim) == 1)
    await asyncio.sleep(2.7)  # all looks after the first question
    client.leave()
    await engine.aborted(within_s=10)
    await stage.settled()
    assert stage.states == {"cancelled": 1}


@ON_ONE_LOOP
async def test_half_closed_client_is_asked_again_until_its_answer_begins(stage):
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.always(go_on, EVENTS + chunk(event("a")), 4.0, chunk(DONE) + END)
    client = await stage.send(post(ASK))
    client.half_close()
    await client.until(lambda: len(client.interim) == 2, within_s=10)
    go_on.set()
    answer = await client.answer(within_s=15)
    assert (answer.is_complete, answer.body) == (True, event("a") + DONE)
    assert [one.status for one in client.interim] == [100, 100], "none within the answer"


async def test_half_closed_client_that_leaves_while_its_answer_comes_is_noticed(stage):
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.always(go_on, *[CHUNKED] + [chunk(b"a"), 0.01] * 50, Do.HOLD)
    client = await stage.send(post(ASK))
    client.half_close()
    await engine.asked()
    await asyncio.sleep(0.05)
    client.leave()
    go_on.set()
    await engine.aborted()
    await stage.settled()
    assert stage.states == {"cancelled": 1}


# HTTP/1.0


@pytest.mark.parametrize("fields", [b"", b"Connection: keep-alive\r\n"])
@pytest.mark.parametrize(
    ("answer", "body"),
    [
        pytest.param(whole(b"abc"), b"abc", id="announced length"),
        pytest.param(CHUNKED + chunk(b"ab") + chunk(b"c") + END, b"abc", id="chunks"),
        pytest.param(head(200) + b"abc", b"abc", id="until the close"),
        pytest.param(stream("a"), event("a") + b"data: [DONE]\n\n", id="events"),
    ],
)
async def test_http10_client_hears_no_chunks_and_its_connection_closes(stage, fields, answer, body):
    engine = await stage.engine()
    closes = (Do.CLOSE,) if answer.startswith(head(200)) else ()
    engine.always(answer, *closes)
    client = await stage.send(HTTP10 % fields)
    answer = await client.answer()
    assert (answer.status, answer.body, answer.is_complete) == (200, body, True)
    assert answer["transfer-encoding"] is None
    assert answer["connection"] == "close"
    assert await client.end() is End.CLOSED


async def test_http10_client_gets_chunks_unpacked_wherever_they_are_split(stage):
    engine = await stage.engine()
    sent = chunk(b"hello") + b"6;name=value\r\n world\r\n" + b"0\r\nX-Trailer: 1\r\n\r\n"
    for position in range(1, len(sent)):
        engine.once(CHUNKED + sent[:position], sent[position:])
    for _ in range(1, len(sent)):
        client = await stage.send(HTTP10 % b"")
        answer = await client.answer()
        assert (answer.body, await client.end()) == (b"hello world", End.CLOSED)


async def test_http10_client_that_half_closes_after_its_request_gets_its_answer(stage):
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.always(go_on, whole(b"late"))
    client = await stage.send(HTTP10 % b"")
    client.half_close()
    await engine.asked()
    await asyncio.sleep(0.05)
    go_on.set()
    answer = await client.answer()
    assert (answer.status, answer.body, client.interim) == (200, b"late", [])
    assert await client.end() is End.CLOSED


async def test_http10_client_needs_no_host(stage):
    client = await stage.send(b"GET /health HTTP/1.0\r\n\r\n")
    assert (await client.answer()).json == {"status": "ok"}
    assert await client.end() is End.CLOSED


# HEAD


@pytest.mark.parametrize("path", ["/health", "/ready", "/v1/models", "/", "/nothing"])
async def test_head_gets_the_head_of_get_and_no_body(stage, path):
    await stage.engine()
    client = await stage.send(get(path))
    whole_answer = await client.answer()
    client = await stage.client()
    client.parses = False
    client.send(get(path, "X-Request-Id: a", method="HEAD"))
    await client.got(b"\r\n\r\n")
    client.leave()
    await client.end()
    answer_head, _, body = bytes(client.raw).partition(b"\r\n\r\n")
    assert body == b""
    assert b"HTTP/1.1 %d " % whole_answer.status in answer_head
    length = b"content-length: " + whole_answer["content-length"].encode()
    assert path in {"/ready", "/nothing"} or length in answer_head


async def test_connection_goes_on_after_head(stage):
    client = await stage.client()
    client.parses = False
    client.send(get("/health", method="HEAD") * 2)
    await client.until(lambda: client.raw.count(b"\r\n\r\n") == 2)
    assert client.raw.count(b"HTTP/1.1 200 OK") == 2
    assert not client.raw.endswith(b"}")


async def test_head_that_is_refused_gets_no_body_either(stage):
    client = await stage.send(b"HEAD /health HTTP/1.1\r\n\r\n")
    assert await client.end() is End.CLOSED
    assert client.raw.startswith(b"HTTP/1.1 400 ")
    assert client.raw.endswith(b"\r\n\r\n")


async def test_head_for_a_path_of_models_is_a_405_without_a_body(stage):
    engine = await stage.engine()
    client = await stage.send(get("/v1/chat/completions", method="HEAD"))
    await client.got(b"\r\n\r\n")
    assert client.raw.startswith(b"HTTP/1.1 405 ")
    assert client.raw.endswith(b"\r\n\r\n")
    assert engine.connections == 0


# Expect


async def test_client_that_waits_before_its_body_is_asked_for_it(stage):
    engine = await stage.engine()
    request = post(ASK, "Expect: 100-continue")
    before, _, body = request.partition(b"\r\n\r\n")
    client = await stage.send(before + b"\r\n\r\n")
    await client.got(b"HTTP/1.1 100 Continue\r\n\r\n")
    client.send(body)
    answer = await client.answer()
    assert answer.status == 200
    assert [interim.status for interim in client.interim] == [100]
    assert b"expect" not in engine.requests[0].fields


async def test_client_that_sends_its_body_at_once_is_not_asked_for_it(stage):
    await stage.engine()
    client = await stage.send(post(ASK, "Expect: 100-continue"))
    assert (await client.answer()).status == 200
    assert client.interim == []


async def test_body_that_will_be_refused_is_not_asked_for(stage):
    stage.tune(limits={"max_body_bytes": 1024})
    client = await stage.send(
        b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: 1025\r\n"
        b"Expect: 100-continue\r\n\r\n"
    )
    assert (await client.answer()).status == 413
    assert client.interim == []


async def test_second_request_that_waits_is_asked_for_its_body_in_its_turn(stage):
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.once(go_on, whole(b"1"))
    before, _, body = post(ASK, "Expect: 100-continue").partition(b"\r\n\r\n")
    client = await stage.send(post(ASK) + before + b"\r\n\r\n")
    await engine.asked()
    assert client.interim == []
    go_on.set()
    assert (await client.answer()).body == b"1"
    await client.until(lambda: client.interim)
    client.send(body)
    assert (await client.answer()).status == 200


async def test_other_expectation_is_a_417(stage):
    answer = await stage.ask(ASK, "Expect: a miracle")
    assert (answer.status, answer.code) == (417, "expectation_failed")


# Time


@ON_ONE_LOOP
async def test_request_that_does_not_arrive_in_time_is_a_408(stage):
    stage.tune(limits={"body_timeout_s": 0.3})
    engine = await stage.engine()
    clients = [await stage.send(part) for part in (post(ASK)[:-1], b"POST /v1/chat", b"G")]
    for client in clients:
        answer = await client.answer()
        assert (answer.status, answer.code, answer["connection"]) == (408, "body_timeout", "close")
        assert await client.end() is End.CLOSED
    assert engine.connections == 0


@ON_ONE_LOOP
async def test_hundreds_of_requests_that_never_become_whole_hold_nobody_up(stage):
    stage.tune(limits={"body_timeout_s": 1.0})
    await stage.engine(answer=whole(b"good"))
    begun = [post({**ASK, "filler": "x" * 50_000})[:-1], b"POST /v1/chat", b"GET / HTTP/1.1\r\nX"]
    slow = [await stage.send(begun[number % 3]) for number in range(300)]
    silent = [await stage.client() for _ in range(100)]
    began_at = asyncio.get_running_loop().time()
    for _ in range(20):
        assert (await stage.ask()).body == b"good"
    assert asyncio.get_running_loop().time() - began_at < 3
    assert {(await client.answer()).code for client in slow} == {"body_timeout"}
    await stage.until(lambda: stage.stats.buffered_body_bytes == 0)
    assert [client.ended for client in silent] == [None] * 100, "which have asked for nothing yet"


@ON_ONE_LOOP
async def test_trickle_of_bytes_does_not_lengthen_the_time_for_a_request(stage):
    stage.tune(limits={"body_timeout_s": 0.5})
    client = await stage.client()
    began_at = asyncio.get_running_loop().time()
    for byte in b"GET /health HTTP/1.1\r\nX: " + b"y" * 1000:
        if client.ended:
            break
        client.send(bytes([byte]))
        await asyncio.sleep(0.01)
    assert (await client.answer()).status == 408
    assert asyncio.get_running_loop().time() - began_at < 3


@ON_ONE_LOOP
async def test_idle_connection_is_closed_after_a_while_and_not_before(stage):
    stage.clock = clock = FakeClock()
    quiet = await stage.client()
    used = await stage.send(get("/health"))
    await used.answer()
    clock.advance(74)
    await asyncio.sleep(0.3)
    assert (quiet.ended, used.ended) == (None, None)
    clock.advance(2)
    assert [await client.end() for client in (quiet, used)] == [End.CLOSED] * 2


async def test_no_byte_waits_for_the_client_to_acknowledge_others(stage):
    """Nagle's algorithm would add 40 ms to tokens."""
    client = await stage.send(get("/health"))
    await client.answer()
    [connection] = stage.gateway._reception.connections
    sock = connection._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_kernel_ends_connections_whose_other_end_vanished(stage):
    """A host without power sends no end: its request would hold an engine for half an hour."""
    stage.tune(stream={"write_timeout_s": 12})
    engine = await stage.engine()
    engine.always(Do.HOLD)
    await stage.send(post(ASK))
    await engine.asked()
    [connection] = stage.gateway._reception.connections
    upstream = connection.work._attempt.connection
    client, server = (one._transport.get_extra_info("socket") for one in (connection, upstream))
    for sock, within_s in ((client, 12), (server, 60)):
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == within_s / 2
    assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 12_000
    assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0, "may be slow"


@ON_ONE_LOOP
async def test_connection_with_a_request_under_way_is_never_idle(stage):
    stage.clock = clock = FakeClock()
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.always(go_on, whole())
    client = await stage.send(post(ASK))
    await engine.asked()
    clock.advance(1000)
    await asyncio.sleep(0.3)
    go_on.set()
    assert (await client.answer()).status == 200
