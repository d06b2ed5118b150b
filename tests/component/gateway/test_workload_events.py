"""Programs can follow what becomes of each request; nothing that was said is in it."""

from __future__ import annotations

import dataclasses
import socket

import orjson
import pytest

from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import post
from tests.fakes.upstream import DONE, END, EVENTS, Do, chunk, event, whole

pytestmark = ON_ONE_LOOP


@pytest.fixture
def told(stage, tmp_path):
    """All events of the gateway, once it has ended."""
    path = tmp_path / "events.jsonl"
    stage.settings = dataclasses.replace(stage.settings, events_file=str(path))

    async def read():
        await stage.gateway.close()
        return [orjson.loads(line) for line in path.read_text().splitlines()]

    return read


def steps(events):
    return [(one["event"], one["state"], one["scheduledOn"]) for one in events]


async def test_failover_is_told_step_by_step(stage, told):
    await stage.engine("e1", priority=1, answer=whole(status=500), engine="vllm")
    await stage.engine(
        "e2",
        answer=EVENTS
        + chunk(event("a"))
        + chunk(b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n')
        + chunk(DONE)
        + END,
    )
    await stage.ask({**ASK, "stream": True}, "X-Request-Id: mine")
    events = await told()
    assert steps(events) == [
        ("submitted", "queued", ""),
        ("submitted", "queued", "e1"),
        ("submitted", "queued", ""),
        ("submitted", "queued", "e2"),
        ("started", "running", "e2"),
        ("completed", "completed", "e2"),
    ]
    assert [one["seq"] for one in events] == [1, 2, 3, 4, 5, 6]
    assert {one["id"] for one in events} == {"mine"}
    assert len({one["runId"] for one in events}) == 1
    assert {one["originatedFrom"] for one in events} == {socket.gethostname()}
    assert events[1]["engine"] == "vllm"
    assert [one for one in events if "stats" in one] == [events[-1]]
    assert events[-1]["stats"]["promptTokens"] == 9
    assert events[-1]["createdAt"] <= events[-1]["startedAt"] <= events[-1]["completedAt"]


async def test_request_that_nobody_serves_ends_as_errored(stage, told):
    await stage.ask()
    events = await told()
    assert [one["event"] for one in events] == ["submitted", "errored"]
    assert (events[-1]["error"], events[-1]["state"]) == ("no_endpoints", "failed")
    assert "stats" not in events[-1]


async def test_client_that_leaves_is_told_as_cancelled(stage, told):
    engine = await stage.engine()
    engine.always(Do.HOLD)
    client = await stage.send(post(ASK))
    await engine.asked()
    client.leave()
    await stage.settled()
    events = await told()
    assert steps(events)[-1] == ("errored", "cancelled", "e1")
    assert all(one["state"] != "running" for one in events)


async def test_complaint_of_an_engine_has_no_figures(stage, told):
    await stage.engine(answer=whole(b'{"usage":{"prompt_tokens":1}}', status=400))
    await stage.ask()
    last = (await told())[-1]
    assert (last["event"], last["state"]) == ("errored", "failed")
    assert "stats" not in last


async def test_break_is_told(stage, told):
    engine = await stage.engine()
    engine.always(EVENTS + chunk(event("a")), Do.CLOSE)
    await (await stage.send(post({**ASK, "stream": True}))).end()
    stats = (await told())[-1]["stats"]
    assert (stats["truncated"], stats["estimated"]) == (True, True)


async def test_nothing_is_made_where_nobody_asked(stage):
    await stage.engine()
    await stage.ask()
    assert stage.gateway._event_stream is None
