"""What the status of an engine's answer means: passed on, tried elsewhere, or our own words."""

from __future__ import annotations

import pytest

from llmgw.domain.routes import EndpointState, ModelState
from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import post
from tests.fakes.upstream import CHUNKED, END, Do, chunk, head, whole

ONE_ATTEMPT = {"dispatch": {"max_attempts": 1}}
GOOD = whole(b"good")


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
    assert stage.failed_attempts == {f"status_{status}": 1}


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
