"""Every request is counted once and written as one line, holds no text, and leaves no garbage."""

from __future__ import annotations

import dataclasses
import gc
import io
import logging
from collections import Counter

import orjson
import pytest

from llmgw.gateway.attempt import Attempt
from llmgw.gateway.connection import ClientConnection
from llmgw.gateway.dispatch import Dispatch
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.families import FAMILIES
from llmgw.gateway.relaying import Relay
from llmgw.gateway.request_log import RequestLog
from llmgw.gateway.request_reader import RequestReader
from llmgw.gateway.responses import ResponseHead
from llmgw.gateway.upstream import UpstreamConnection
from llmgw.kit import metrics
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import get, post
from tests.fakes.upstream import DONE, EVENTS, Do, chunk, event, stream, whole

CANARY = "canary-7f3a"


@pytest.fixture(params=[False, True], ids=["plain", "json"])
def written(request, stage):
    """What the request log has written, once the gateway has ended."""
    out = io.StringIO()
    stage.request_log = RequestLog(stream=out, as_json=request.param, clock=stage.clock)

    async def lines():
        await stage.gateway.close()
        return out.getvalue().splitlines()

    return lines


async def every_kind_of_request(stage, *fields):
    """One request of each kind that ends in its own way; how many."""
    engine = await stage.engine("e1", priority=1)
    engine.once(whole(CANARY.encode()))
    engine.once(stream(CANARY))
    engine.once(whole(CANARY.encode(), status=400))
    engine.once(whole(CANARY.encode(), status=500))
    engine.once(whole(CANARY.encode(), status=401))
    engine.once(EVENTS + chunk(event(CANARY)), Do.CLOSE)
    engine.once(EVENTS + chunk(event(CANARY)), Do.HOLD)
    await stage.engine("e2")
    asked = {**ASK, "messages": [{"content": CANARY}], "user": CANARY}
    for _ in range(6):
        client = await stage.send(post(asked, *fields, path=f"/v1/completions?{CANARY}"))
        await client.answer()
    client = await stage.send(post(asked, *fields))
    await client.got(b"data: ")
    client.leave()
    await stage.settled()
    for request in (
        post({**asked, "model": CANARY}, *fields),
        post(CANARY.encode(), *fields),
        post(asked, *fields, f"Transfer-Encoding: {CANARY}"),
        get("/v1/models", *fields),
        get(f"/v1/models?{CANARY}", *fields, method="DELETE"),
    ):
        answer = await (await stage.send(request)).answer()
        assert CANARY.encode() not in answer.body
    return 12


async def test_every_request_leaves_one_line_and_one_count(stage, written):
    count = await every_kind_of_request(stage)
    await (await stage.send(get("/health"))).answer()
    assert sum(stage.stats.totals.requests.values()) == count + 1
    assert sum(stage.states.values()) == count + 1
    assert len(await written()) == count, "a probe leaves none"


async def test_no_text_of_a_request_or_an_answer_is_kept_anywhere(stage, written, caplog, tmp_path):
    """In no log, metric, event, receipt or error."""
    events = tmp_path / "events.jsonl"
    stage.settings = dataclasses.replace(stage.settings, events_file=str(events))
    with caplog.at_level(logging.DEBUG, logger="llmgw"):
        await every_kind_of_request(
            stage, f"Authorization: Bearer {CANARY}", f"X-Api-Key: {CANARY}", f"Cookie: {CANARY}"
        )
        assert CANARY not in repr(stage.stats)
        assert CANARY not in metrics.render(stage.gateway.figures(), FAMILIES)
        assert b"model" in stage.gateway._receipts._block
        assert CANARY.encode() not in stage.gateway._receipts._block
        lines = await written()
    assert CANARY not in "\n".join(lines)
    assert "submitted" in events.read_text()
    assert CANARY not in events.read_text()
    assert CANARY not in caplog.text
    assert CANARY not in repr([record.__dict__ for record in caplog.records])


async def test_line_tells_who_served_and_after_how_many_attempts(stage):
    out = io.StringIO()
    stage.request_log = RequestLog(stream=out, as_json=True, clock=stage.clock)
    engine = await stage.engine("first", priority=1, answer=whole(status=500))
    await stage.engine("second", answer=stream("a", "b"))
    await stage.ask({**ASK, "stream": True}, "X-Request-Id: mine")
    await stage.gateway.close()
    line = orjson.loads(out.getvalue())
    expected = {
        "event": "request",
        "request_id": "mine",
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "state": "completed",
        "model": "m",
        "stream": True,
        "endpoint": "second",
        "attempts": 2,
        "events": 3,
    }
    assert expected.items() <= line.items()
    assert 0 <= line["queue_ms"] <= line["ttft_ms"] + line["queue_ms"] <= line["total_ms"]
    assert len(engine.requests) == 1


async def test_lines_are_written_without_waiting_for_more_of_them(stage):
    out = io.StringIO()
    stage.request_log = RequestLog(stream=out, as_json=True, clock=stage.clock)
    await stage.engine()
    await stage.ask()
    await stage.until(out.getvalue)
    assert [orjson.loads(line)["status"] for line in out.getvalue().splitlines()] == [200]


async def test_request_leaves_nothing_for_the_collector(stage):
    """The hot path makes no cycles, so that the collector may look rarely."""
    engine = await stage.engine()
    client = await stage.client()
    answers = [
        whole(b"a"),
        stream("b"),
        whole(b"c", status=400),
        EVENTS + chunk(event("d")) + chunk(DONE) + b"0\r\n\r\n",
    ]

    async def one_round():
        for answer in answers:
            engine.once(answer)
            client.send(post(ASK))
            await client.answer()
        client.send(get("/v1/models") + get("/nothing"))
        await client.answer()
        await client.answer()
        other = await stage.send(post(b"{") + b"\r\n\r\nnonsense")
        await other.end()

    await one_round()
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            await one_round()
        early = alive()
        for _ in range(10):
            await one_round()
        late = alive()
    finally:
        gc.enable()
    assert late == early
    assert max(late.values(), default=0) <= len(answers), late


def alive():
    """How many of what a request is made of live."""
    kinds = (
        *(Exchange, Dispatch, Attempt, Relay, ResponseHead),
        *(ClientConnection, RequestReader, UpstreamConnection),
    )
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, kinds))


@ON_ONE_LOOP  # transports of asyncio's own loop refer back to what they serve
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((Do.HOLD,), id="client leaves before the head"),
        pytest.param((EVENTS, Do.HOLD), id="client leaves before the body"),
        pytest.param((EVENTS + chunk(event("a")), Do.HOLD), id="client leaves mid-stream"),
        pytest.param((Do.CLOSE,), id="engine is lost before the head"),
        pytest.param((EVENTS + chunk(event("a")), Do.RESET), id="engine is lost mid-stream"),
        pytest.param((b"HTTP/1.1 nonsense\r\n\r\n",), id="engine sends nonsense"),
    ],
)
async def test_request_that_ends_early_leaves_nothing_for_the_collector(stage, answer):
    """A third of all clients may leave: what they leave behind would lie there for minutes."""
    stage.tune(dispatch={"max_attempts": 1}, breaker={"failure_threshold": 100})
    engine = await stage.engine()
    engine.always(*answer)

    async def one_round():
        seen = len(engine.requests)
        client = await stage.send(post({**ASK, "stream": True}))
        await stage.until(lambda: len(engine.requests) > seen)
        if Do.HOLD not in answer:
            await stage.settled()
        elif "data: " in repr(answer):
            await client.got(b"data: ")
        client.leave()
        await stage.settled()
        await stage.until(lambda: stage.stats.connections == 0)

    gc.collect()
    gc.disable()
    try:
        for _ in range(8):
            await one_round()
        left = alive()
    finally:
        gc.enable()
    assert max(left.values(), default=0) <= 2, f"more than what closes just now: {left}"
