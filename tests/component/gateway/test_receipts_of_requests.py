"""A client can ask where its request went and why; nothing that was said is in the answer."""

from __future__ import annotations

import dataclasses

import pytest

from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import get, post
from tests.fakes.upstream import DONE, END, EVENTS, Do, chunk, event, whole

pytestmark = ON_ONE_LOOP


async def receipt(stage, request_id):
    answer = await (await stage.send(get(f"/v1/requests/{request_id}"))).answer()
    assert answer.status == 200, answer.body
    return answer.json


async def test_receipt_tells_candidates_attempts_waits_and_tokens(stage):
    stage.tune(breaker={"failure_threshold": 9})
    first = await stage.engine("e1", priority=1, answer=whole(status=500))
    await stage.engine("e2", answer=whole(b'{"usage":{"prompt_tokens":3,"completion_tokens":2}}'))
    await stage.ask(ASK, "X-Request-Id: mine")
    told = await receipt(stage, "mine")
    assert (told["status"], told["model"], told["endpoint"]) == (200, "m", "e2")
    assert told["attempts"] == 2
    assert told["usage"] == {"prompt_tokens": 3, "completion_tokens": 2}
    assert 0 <= told["queue_ms"] <= told["total_ms"]
    decided, failed, again = told["steps"]
    assert (decided["step"], decided["endpoint"]) == ("decided", "e1")
    assert decided["candidates"][0]["cost"] >= 0
    assert decided["candidates"][1] == {"endpoint": "e2", "load": 0, "reason": "priority"}
    assert failed["step"] == "attempt_failed"
    assert (failed["endpoint"], failed["outcome"]) == ("e1", "status_500")
    assert again["candidates"][0]["reason"] == "tried"
    assert len(first.requests) == 1


async def test_id_that_the_gateway_made_leads_to_the_receipt(stage):
    await stage.engine()
    answer = await stage.ask()
    assert (await receipt(stage, answer["x-request-id"]))["state"] == "completed"


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        pytest.param({"model": "nobody"}, 404, "model_not_found", id="unknown model"),
        pytest.param(b"{", 400, "invalid_json", id="no JSON"),
        pytest.param(ASK, 503, "no_endpoints", id="nobody serves it"),
    ],
)
async def test_refusals_have_receipts_too(stage, request_, status, code):
    await stage.ask(request_, "X-Request-Id: mine")
    told = await receipt(stage, "mine")
    assert (told["status"], told["code"]) == (status, code)


async def test_receipt_of_a_broken_stream_says_what_broke_it(stage):
    engine = await stage.engine()
    engine.always(EVENTS + chunk(event("a")), Do.CLOSE)
    await (await stage.send(post({**ASK, "stream": True}, "X-Request-Id: mine"))).end()
    told = await receipt(stage, "mine")
    assert (told["truncated"], told["state"]) == ("lost", "completed")


async def test_what_is_not_known_is_not_found(stage):
    await stage.engine()
    client = await stage.client()
    for path in ("/v1/requests/nobody", "/v1/requests/", "/v1/requests/a/b"):
        client.send(get(path))
        answer = await client.answer()
        assert (answer.status, answer.code) == (404, "not_found")
    client.send(get("/v1/requests/a", method="DELETE"))
    assert (await client.answer()).status == 405


async def test_local_pages_leave_no_receipt(stage):
    client = await stage.send(get("/v1/models", "X-Request-Id: mine"))
    await client.answer()
    client.send(get("/v1/requests/mine"))
    assert (await client.answer()).status == 404


async def test_receipts_can_be_switched_off(stage):
    stage.settings = dataclasses.replace(stage.settings, receipts_bytes=0)
    await stage.engine(answer=EVENTS + chunk(event("a")) + chunk(DONE) + END)
    await stage.ask(ASK, "X-Request-Id: mine")
    answer = await (await stage.send(get("/v1/requests/mine"))).answer()
    assert answer.status == 404
