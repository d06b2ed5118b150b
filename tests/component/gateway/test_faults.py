"""A fault of our own is answered or broken off, logged, and harms nobody else."""

from __future__ import annotations

import pytest

from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import get, post
from tests.fakes.upstream import CHUNKED, END, chunk, stream, whole

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
