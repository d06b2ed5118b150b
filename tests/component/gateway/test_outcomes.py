"""How each end of an attempt is answered: tried elsewhere or not, in whose words, at whose cost."""

from __future__ import annotations

import asyncio
import socket

import pytest

from llmgw.domain.routes import EndpointState, ModelState
from tests.fakes.clock import FakeClock
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import get, post
from tests.fakes.upstream import CHUNKED, END, EVENTS, Do, chunk, event, head, stream, whole

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
    assert stage.stats.totals.failed_attempts == {"dial_failed": 1}


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
    """Row 6; here the queue of a listener that never accepts is full."""
    stage.tune(dispatch={"dial_timeout_s": 0.3})
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        await asyncio.sleep(0.05)
        stage.list_endpoint("e1", f"http://127.0.0.1:{port}", priority=1)
        await stage.engine("e2", answer=GOOD)
        began_at = asyncio.get_running_loop().time()
        answer = await stage.ask()
        took_s = asyncio.get_running_loop().time() - began_at
        for sock in waiting:
            sock.close()
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


@ON_ONE_LOOP
async def test_time_for_the_body_counts_from_the_head(stage):
    stage.clock = clock = FakeClock()
    stage.tune(dispatch={"response_timeout_s": 100, "max_attempts": 1})
    engine = await stage.engine()
    go_on = [asyncio.Event(), asyncio.Event()]
    engine.always(go_on[0], CHUNKED, go_on[1], chunk(b"late") + END)
    client = await stage.send(post(ASK))
    await engine.asked()
    for event_ in go_on:
        clock.advance(90)
        await asyncio.sleep(0.3)
        event_.set()
        await asyncio.sleep(0.02)
    assert (await client.answer()).body == b"late"


@ON_ONE_LOOP
async def test_no_response_timeout_means_no_bound(stage):
    stage.clock = clock = FakeClock()
    stage.tune(dispatch={"response_timeout_s": 0})
    engine = await stage.engine()
    go_on = [asyncio.Event(), asyncio.Event()]
    engine.always(go_on[0], CHUNKED, go_on[1], chunk(b"late") + END)
    client = await stage.send(post(ASK))
    await engine.asked()
    for event_ in go_on:
        clock.advance(100_000)
        await asyncio.sleep(0.3)
        event_.set()
        await asyncio.sleep(0.02)
    assert (await client.answer()).body == b"late"


@ON_ONE_LOOP
async def test_stream_under_way_may_be_silent_for_longer_than_an_answer_may_take_to_begin(stage):
    stage.clock = clock = FakeClock()
    stage.tune(dispatch={"response_timeout_s": 100})
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.always(EVENTS + chunk(event("a")), go_on, chunk(b"data: [DONE]\n\n") + END)
    client = await stage.send(post(ASK))
    await client.got(event("a"))
    clock.advance(1000)
    await asyncio.sleep(0.3)
    go_on.set()
    assert (await client.answer()).body.endswith(b"[DONE]\n\n")


# Answers that speak for themselves


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 299])
async def test_2xx_is_passed_on_and_calms_the_breaker(stage, status):
    """Rows 11, 12 and 27."""
    body = b"" if status == 204 else b"fine"
    engine = await stage.engine(answer=whole(body, status=status))
    answer = await stage.ask()
    assert (answer.status, answer.body, answer["x-llmgw-attempts"]) == (status, body, "1")
    assert stage.states == {"completed": 1}
    assert len(engine.requests) == 1


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((head(200, "Content-Length: 0"),), id="length 0"),
        pytest.param((CHUNKED + END,), id="no chunk"),
        pytest.param((head(200), Do.CLOSE), id="a close"),
    ],
)
async def test_2xx_without_a_byte_is_passed_on_empty(stage, steps):
    """Row 12."""
    engine = await stage.engine()
    engine.always(*steps)
    answer = await stage.ask()
    assert (answer.status, answer.body, answer.is_complete) == (200, b"", True)
    assert stage.states == {"completed": 1}
    assert len(engine.requests) == 1


NOT_RETRIED = [300, 301, 302, 307, 308, 400, 402, 405, 409, 413, 415, 422, 451, 499, 501, 505]


@pytest.mark.parametrize("status", NOT_RETRIED)
async def test_status_that_another_engine_would_give_too_is_passed_on_at_once(stage, status):
    """Rows 13 and 17, and what an engine cannot do: one attempt, and nobody's fault."""
    stage.tune(breaker={"failure_threshold": 1})
    engine = await stage.engine("e1", priority=1)
    other = await stage.engine("e2")
    engine.always(whole(b'{"error":"mine"}', "X-Engine: yes", "Location: /x", status=status))
    answer = await stage.ask()
    assert (answer.status, answer.body, answer["x-engine"]) == (status, b'{"error":"mine"}', "yes")
    assert answer["x-llmgw-attempts"] == "1"
    assert other.requests == []
    assert not stage.endpoint_stats().is_breaker_open
    assert stage.states == {"failed": 1}


@pytest.mark.parametrize("status", [401, 403, 407])
async def test_refusal_of_our_own_key_is_a_502_and_the_endpoint_s_fault(stage, status):
    """Row 17 on the OpenAI port: the caller's key was never asked."""
    stage.tune(breaker={"failure_threshold": 1})
    engine = await stage.engine("e1", priority=1)
    other = await stage.engine("e2")
    engine.always(whole(b"bad key sk-ours", 'WWW-Authenticate: Basic realm="x"', status=status))
    answer = await stage.ask()
    assert (answer.status, answer.code) == (502, "upstream_auth_failed")
    assert b"sk-ours" not in answer.body
    assert answer["www-authenticate"] is None
    assert other.requests == []
    assert stage.endpoint_stats().is_breaker_open


RETRIED = {
    404: False,
    408: False,
    429: False,
    500: True,
    502: True,
    503: True,
    504: True,
    599: True,
}


@pytest.mark.parametrize(("status", "is_fault"), RETRIED.items())
async def test_status_that_another_engine_may_not_give_is_tried_elsewhere(stage, status, is_fault):
    """Rows 14, 16 and 18."""
    stage.tune(breaker={"failure_threshold": 1})
    engine = await stage.engine("e1", priority=1, answer=whole(b"no", status=status))
    await stage.engine("e2", answer=GOOD)
    answer = await stage.ask()
    assert (answer.status, answer.body, answer["x-llmgw-attempts"]) == (200, b"good", "2")
    assert stage.endpoint_stats().is_breaker_open is is_fault
    assert len(engine.requests) == 1
    assert stage.stats.totals.failed_attempts == {f"status_{status}": 1}


@pytest.mark.parametrize("status", RETRIED)
async def test_last_attempt_answers_for_itself(stage, status):
    """Status, fields and body of the engine, unchanged; of the earlier ones nothing."""
    stage.tune(dispatch={"max_attempts": 3})
    engines = await stage.engines(3)
    for number, engine in enumerate(engines):
        engine.always(whole(b"body %d" % number, f"X-Number: {number}", status=status))
    answer = await stage.ask()
    number = int(answer["x-number"])
    assert (answer.status, answer.body) == (status, b"body %d" % number)
    assert answer["x-llmgw-attempts"] == "3"
    assert [len(engine.requests) for engine in engines] == [1, 1, 1]
    assert stage.states == {"failed": 1}


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((head(500, "Content-Length: 9"), 0.01, b"it", 0.01, b" failed"), id="length"),
        pytest.param(
            (head(500, "Transfer-Encoding: chunked"), chunk(b"it"), chunk(b" failed"), END),
            id="chunks",
        ),
        pytest.param((head(500), b"it", b" failed", Do.CLOSE), id="close"),
    ],
)
async def test_last_answer_is_passed_on_whole_though_it_comes_in_pieces(stage, steps):
    stage.tune(**ONE_ATTEMPT)
    engine = await stage.engine()
    engine.always(*steps)
    answer = await stage.ask()
    assert (answer.status, answer.body, answer.is_complete) == (500, b"it failed", True)


async def test_head_of_a_refusal_does_not_wait_for_its_body(stage):
    """Rows 13 to 18: nothing is gained by waiting, neither for the client nor for a retry."""
    engine = await stage.engine("e1", priority=1)
    other = await stage.engine("e2", answer=GOOD)
    engine.once(head(400, "Content-Length: 5"), Do.HOLD)
    client = await stage.send(post(ASK))
    await client.got(b"HTTP/1.1 400 ")
    client.leave()
    engine.once(head(500, "Content-Length: 5"), Do.HOLD)
    assert (await stage.ask()).body == b"good"
    await engine.aborted(2)
    assert len(other.requests) == 1


@pytest.mark.parametrize(
    "body",
    [b'{"error":{"message":"Loading model","code":503}}', b'{"detail":"Model is loading"}'],
    ids=["llama.cpp", "another"],
)
async def test_engine_that_still_loads_is_passed_over_and_not_blamed(stage, body):
    """Row 18, with the body that makes it nobody's fault."""
    stage.tune(breaker={"failure_threshold": 1})
    engine = await stage.engine("e1", priority=1, answer=whole(body, status=503))
    await stage.engine("e2", answer=GOOD)
    assert (await stage.ask()).body == b"good"
    assert not stage.endpoint_stats().is_breaker_open
    assert len(engine.requests) == 1


# Nobody to send to


async def test_unknown_model_is_a_404_and_an_unplaced_one_a_503(stage):
    """Row 1: four different codes, so that a typo is told as one."""
    stage.list_model("unplaced", state=ModelState.NOT_PLACED)
    stage.list_model("loading", state=ModelState.LOADING)
    answer = await stage.ask({"model": "typo"})
    assert (answer.status, answer.code, answer["retry-after"]) == (404, "model_not_found", None)
    answer = await stage.ask({"model": "unplaced"})
    assert (answer.status, answer.code, answer["retry-after"]) == (503, "no_endpoints", "5")
    answer = await stage.ask({"model": "loading"})
    assert (answer.status, answer.code, answer["retry-after"]) == (503, "model_loading", "10")
    stage.list_model("loading", state=ModelState.LOADING, retry_after_s=42)
    assert (await stage.ask({"model": "loading"}))["retry-after"] == "42"
    assert b"typo" not in (await stage.ask({"model": "typo"})).body


async def test_model_that_does_not_start_is_told_with_its_cause(stage):
    facts = {"failure": "llama-server ended with exit code 2", "retry_after_s": 42}
    stage.list_model("broken", state=ModelState.FAILED, **facts)
    answer = await stage.ask({"model": "broken"})
    assert (answer.status, answer.code, answer["retry-after"]) == (503, "load_failed", "42")
    assert b"does not start: llama-server ended with exit code 2" in answer.body


async def test_draining_endpoint_gets_no_request(stage):
    engine = await stage.engine()
    stage.change_endpoint("e1", state=EndpointState.DRAINING)
    answer = await stage.ask()
    assert (answer.status, answer.code) == (503, "no_endpoints")
    assert engine.connections == 0


# Rounds


async def test_five_attempts_and_never_a_sixth(stage):
    engines = await stage.engines(6, answer=whole(b"no", status=500))
    began_at = asyncio.get_running_loop().time()
    answer = await stage.ask()
    assert (answer.status, answer.body, answer["x-llmgw-attempts"]) == (500, b"no", "5")
    assert sum(len(engine.requests) for engine in engines) == 5
    assert asyncio.get_running_loop().time() - began_at < 0.2, "no pause within a round"


async def test_single_engine_is_tried_again_after_a_pause(stage):
    engine = await stage.engine()
    times = []
    engine.once(whole(status=500))
    engine.once(whole(b"good"))
    began_at = asyncio.get_running_loop().time()
    answer = await stage.ask()
    times = asyncio.get_running_loop().time() - began_at
    assert (answer.body, answer["x-llmgw-attempts"]) == (b"good", "2")
    assert 0.19 < times < 1.0
    assert engine.connections == 1, "an answered failure keeps its connection"


@ON_ONE_LOOP
async def test_pause_between_rounds_doubles(stage):
    stage.tune(dispatch={"max_attempts": 3})
    engine = await stage.engine(answer=whole(status=500))
    client = await stage.send(post(ASK))
    times = []
    for number in (1, 2, 3):
        await engine.asked(number)
        times.append(asyncio.get_running_loop().time())
    assert (await client.answer())["x-llmgw-attempts"] == "3"
    assert 0.19 < times[1] - times[0] < 0.9
    assert 0.39 < times[2] - times[1] < 1.8


async def test_engines_that_fail_slowly_use_up_the_deadline_before_the_attempts(stage):
    """At 240 s each: three attempts, and a fourth never begins."""
    stage.clock = clock = FakeClock()
    engines = await stage.engines(5)
    go_on = [asyncio.Event() for _ in range(5)]
    for engine in engines:
        engine.always(*go_on[:1], whole(status=500))
    client = await stage.send(post(ASK))
    for number in (1, 2, 3):
        await stage.until(
            lambda number=number: sum(len(engine.requests) for engine in engines) == number
        )
        clock.advance(240)
        for engine in engines:
            if engine.playing:
                go_on[0].set()
                await engine.until(lambda engine=engine: not engine.playing)
        go_on[0].clear()
    answer = await client.answer()
    assert (answer.status, answer.code) == (503, "deadline_exceeded")
    assert sum(len(engine.requests) for engine in engines) == 3


async def test_engine_that_comes_back_is_used_without_waiting_for_the_pause(stage):
    """Rows 2: waiting uses no attempt and ends when the table changes."""
    stage.tune(dispatch={"max_attempts": 2})
    engine = await stage.engine(answer=whole(status=500))
    client = await stage.send(post(ASK))
    await engine.asked()
    stage.drop_endpoint("e1")
    await stage.until(lambda: stage.stats.table_number == stage.routes.current().number)
    other = await stage.engine("e2", answer=GOOD)
    answer = await client.answer(within_s=0.5)
    assert (answer.body, answer["x-llmgw-attempts"]) == (b"good", "2")
    assert len(other.requests) == 1


@pytest.mark.parametrize(
    ("is_gone", "code"), [(True, "no_owner_returned"), (False, "deadline_exceeded")]
)
async def test_after_its_deadline_no_attempt_begins(stage, is_gone, code):
    """Rows 3 and 4: two codes, and the earlier engine's words are gone."""
    stage.clock = clock = FakeClock()
    engine = await stage.engine(answer=whole(b"no", status=500))
    client = await stage.send(post(ASK))
    await engine.asked()
    if is_gone:
        stage.drop_endpoint("e1")
    clock.advance(601)
    answer = await client.answer()
    assert (answer.status, answer.code, answer["retry-after"]) == (503, code, "5")
    assert len(engine.requests) == 1
    assert stage.states == {"failed": 1}


@ON_ONE_LOOP
async def test_attempt_begun_before_the_deadline_may_outlast_it(stage):
    stage.clock = clock = FakeClock()
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.always(go_on, whole(b"late"))
    client = await stage.send(post(ASK))
    await engine.asked()
    clock.advance(1700)
    await asyncio.sleep(0.3)
    go_on.set()
    assert (await client.answer()).body == b"late"


# The breaker at work


async def test_open_breaker_passes_its_endpoint_over_without_an_attempt(stage):
    """Row 5."""
    stage.tune(breaker={"failure_threshold": 1})
    engine = await stage.engine("e1", priority=1, answer=whole(status=500))
    await stage.engine("e2", answer=GOOD)
    assert (await stage.ask())["x-llmgw-attempts"] == "2"
    for _ in range(3):
        assert (await stage.ask())["x-llmgw-attempts"] == "1"
    assert len(engine.requests) == 1


async def test_open_breaker_lets_one_probe_through_after_its_time(stage):
    stage.clock = clock = FakeClock()
    stage.tune(breaker={"failure_threshold": 1, "open_s": 5})
    engine = await stage.engine("e1", priority=1)
    other = await stage.engine("e2", answer=GOOD)
    go_on = asyncio.Event()
    engine.once(whole(status=500))
    engine.once(go_on, whole(b"back"))
    await stage.ask()
    clock.advance(5.1)
    probe = await stage.send(post(ASK))
    await engine.asked(2)
    assert (await stage.ask()).body == b"good", "a second one meanwhile goes elsewhere"
    go_on.set()
    assert (await probe.answer()).body == b"back"
    assert not stage.endpoint_stats().is_breaker_open
    assert len(other.requests) == 2


async def test_probe_whose_client_leaves_gives_its_permit_back(stage):
    stage.clock = clock = FakeClock()
    stage.tune(breaker={"failure_threshold": 1, "open_s": 5})
    engine = await stage.engine("e1", priority=1)
    await stage.engine("e2", answer=GOOD)
    engine.once(whole(status=500))
    engine.once(Do.HOLD)
    await stage.ask()
    clock.advance(5.1)
    probe = await stage.send(post(ASK))
    await engine.asked(2)
    probe.leave()
    await engine.aborted()
    assert stage.endpoint_stats().is_breaker_open
    assert (await stage.ask()).body == b'{"id":"x"}', "the next one probes"


async def test_with_every_engine_left_alone_a_request_probes_early(stage):
    """A request is never refused because of what earlier ones met."""
    stage.tune(breaker={"failure_threshold": 1, "open_s": 60}, **ONE_ATTEMPT)
    engine = await stage.engine()
    engine.once(whole(status=500))
    await stage.ask()
    assert stage.endpoint_stats().is_breaker_open
    assert (await stage.ask()).status == 200
    assert not stage.endpoint_stats().is_breaker_open


async def test_second_request_during_that_probe_is_told_when_to_come_back(stage):
    stage.tune(breaker={"failure_threshold": 1, "open_s": 60}, **ONE_ATTEMPT)
    engine = await stage.engine()
    engine.once(whole(status=500))
    engine.once(Do.HOLD)
    await stage.ask()
    probe = await stage.send(post(ASK))
    await engine.asked(2)
    answer = await stage.ask()
    assert (answer.status, answer.code) == (503, "no_endpoints")
    assert 1 <= int(answer["retry-after"]) <= 60
    probe.leave()
    await engine.aborted()


# Faults of our own


async def test_fault_of_ours_is_a_500_that_harms_nobody_else(stage, logged_errors):
    """Row 28."""
    await stage.engine()
    await stage.start()
    stage.routes.current = lambda: 1 / 0
    answer = await (await stage.send(get("/v1/models"))).answer()
    assert (answer.status, answer.code) == (500, "internal")
    assert logged_errors == ["request_failed"]
    logged_errors.clear()
    assert (await stage.ask()).status == 200


NOT_ENCODABLE = "\ud800"


@pytest.mark.parametrize("upstream_model", ["", "theirs"], ids=["before it is sent", "at the head"])
@pytest.mark.parametrize("answer", [GOOD, CHUNKED + chunk(b"a") + END], ids=["whole", "chunks"])
async def test_fault_of_ours_on_the_way_is_a_500_too(stage, logged_errors, upstream_model, answer):
    """Row 28, here by a name that cannot be written into a head."""
    engine = await stage.engine(models=(NOT_ENCODABLE,), upstream_model=upstream_model)
    engine.always(answer)
    stage.list_model(NOT_ENCODABLE, aliases=("alias",))
    answer = await stage.ask({"model": "alias"})
    assert (answer.status, answer.code) == (500, "internal")
    assert "request_failed" in logged_errors
    logged_errors.clear()
    await engine.until(lambda: not engine.open)


@pytest.mark.parametrize("how", ["when the pause ends", "when a table comes"])
async def test_fault_of_ours_between_rounds_is_a_500_that_harms_no_table(stage, logged_errors, how):
    engine = await stage.engine(answer=whole(status=500))
    client = await stage.send(post(ASK))
    await engine.asked()
    await stage.until(lambda: stage.stats.totals.failed_attempts)
    if how == "when a table comes":
        stage.list_endpoint("e2", engine.url, upstream_model=NOT_ENCODABLE)
    else:
        stage.change_endpoint("e1", upstream_model=NOT_ENCODABLE)
    assert stage.stats.table_number == stage.routes.current().number
    answer = await client.answer()
    assert (answer.status, answer.code) == (500, "internal")
    assert "request_failed" in logged_errors
    logged_errors.clear()


class FullLog:
    """A request log that fails."""

    dropped_lines = 0

    def start(self):
        pass

    def add(self, exchange):
        raise OSError("no space left")

    def flush(self):
        pass

    def close(self):
        pass


async def test_fault_of_ours_at_the_end_of_an_answer_leaves_nobody_waiting(stage, logged_errors):
    """Row 29: once the answer has begun the connection is broken."""
    stage.request_log = FullLog()
    engine = await stage.engine()
    for answer in (GOOD, stream("a")):
        engine.always(answer)
        client = await stage.send(post(ASK))
        await client.until(lambda client=client: client.ended or client.raw)
        client.leave()
    await stage.settled()
    logged_errors.clear()
