"""A fault of our own is answered or broken off, logged, and harms nobody else."""

from __future__ import annotations

import dataclasses
import io

import orjson
import pytest

from llmgw.gateway.request_log import RequestLog
from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import End, get, post
from tests.fakes.upstream import CHUNKED, END, EVENTS, Do, chunk, event, stream, whole

GOOD = whole(b"good")


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
    await stage.until(lambda: stage.failed_attempts)
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
    """A request log that fails as long as it is full."""

    dropped_lines = 0

    def __init__(self):
        self.is_full = True

    def start(self):
        pass

    def add(self, exchange):
        if self.is_full:
            raise OSError("no space left")

    def flush(self):
        pass

    def close(self):
        pass


@pytest.mark.parametrize("answer", [GOOD, stream("a")], ids=["whole", "stream"])
async def test_fault_of_ours_at_the_end_of_an_answer_leaves_nobody_waiting(
    stage, logged_errors, answer
):
    """Row 29: the connection is broken, so that nobody takes it for a whole answer in peace."""
    stage.request_log = log = FullLog()
    await stage.engine(answer=answer)
    client = await stage.send(post(ASK))
    assert await client.end() is End.RESET
    assert logged_errors == ["request_failed"]
    logged_errors.clear()
    await stage.settled()
    log.is_full = False
    assert (await stage.ask()).is_complete


@pytest.fixture
def told(stage, tmp_path):
    """Lines of the request log, and the events, once the gateway has ended."""
    out, events = io.StringIO(), tmp_path / "events.jsonl"
    stage.request_log = RequestLog(stream=out, as_json=True, clock=stage.clock)
    stage.settings = dataclasses.replace(stage.settings, events_file=str(events))

    async def read():
        await stage.gateway.close()
        lines = map(orjson.loads, out.getvalue().splitlines())
        return list(lines), [orjson.loads(line) for line in events.read_text().splitlines()]

    return read


@pytest.mark.parametrize("by", ["engine", "client", "gateway"])
async def test_copy_that_broke_is_seen_broken_and_told_once_everywhere(stage, told, by):
    """Whoever broke it: one line, one terminal event, one count, and all is given back."""
    engine = await stage.engine()
    engine.always(EVENTS + chunk(event("a")), 0.02, Do.RESET if by == "engine" else Do.HOLD)
    client = await stage.send(post({**ASK, "stream": True}))
    await client.got(event("a"))
    if by == "client":
        client.leave()
    elif by == "gateway":
        await stage.gateway.drain(0.05)
    await client.end()
    await stage.settled()
    assert b"[DONE]" not in client.raw
    assert not client.raw.endswith(END)
    assert sum(stage.states.values()) == sum(stage.stats.totals.requests.values()) == 1
    assert stage.endpoint_stats().inflight == 0
    assert stage.stats.admission.leases == 0
    lines, events = await told()
    assert [line["state"] for line in lines] == list(stage.states)
    assert [one["event"] for one in events if one["event"] in {"completed", "errored"}] == [
        events[-1]["event"]
    ]
