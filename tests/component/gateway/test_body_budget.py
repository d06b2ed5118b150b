"""Bodies that a worker holds are bounded, all together, and given back whatever happens."""

from __future__ import annotations

import pytest

from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import post
from tests.fakes.upstream import EVENTS, Do, chunk, event, whole

FILLER = "x" * 600_000
LARGE = {**ASK, "filler": FILLER}


@pytest.fixture
async def small(stage):
    """A gateway that holds a megabyte and an engine that never answers."""
    stage.tune(limits={"buffered_bytes_per_worker": 1_000_000})
    engine = await stage.engine()
    engine.always(Do.HOLD)
    return stage, engine


async def test_body_beyond_the_budget_is_a_503_and_the_connection_ends(small):
    stage, engine = small
    first = await stage.send(post(LARGE))
    await engine.asked()
    answer = await stage.ask(LARGE)
    assert (answer.status, answer.code) == (503, "memory_pressure")
    assert answer["retry-after"] == "1"
    assert answer["connection"] == "close"
    first.leave()
    await stage.until(lambda: stage.stats.buffered_body_bytes == 0)
    engine.always(whole())
    assert (await stage.ask(LARGE)).status == 200


async def test_small_requests_are_served_while_large_ones_fill_the_budget(small):
    stage, engine = small
    await stage.send(post(LARGE))
    await engine.asked()
    engine.always(whole())
    assert (await stage.ask()).status == 200


async def test_large_bodies_that_never_become_whole_leave_room_for_small_ones(small):
    stage, engine = small
    begun = post(b"x" * 1_000_100)[:-200]
    slow = await stage.send(begun)
    assert (await slow.answer()).code == "memory_pressure"
    patient = await stage.send(begun[:870_000])
    await stage.until(lambda: stage.stats.buffered_body_bytes > 860_000)
    engine.always(whole())
    assert (await stage.ask({**ASK, "filler": FILLER[:100_000]})).status == 200
    assert patient.ended is None


async def test_body_is_given_back_once_the_answer_has_begun(small):
    """A stream may run for an hour; nothing will be sent again."""
    stage, engine = small
    engine.always(EVENTS + chunk(event("a")), Do.HOLD)
    for _ in range(3):
        client = await stage.send(post(LARGE))
        await client.got(event("a"))
        assert stage.stats.buffered_body_bytes == 0


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(post(b"[" + FILLER.encode()), id="not JSON"),
        pytest.param(post({**LARGE, "model": "typo"}), id="an unknown model"),
        pytest.param(post(LARGE, "Content-Encoding: gzip"), id="compressed"),
        pytest.param(post(LARGE, path="/nothing"), id="an unknown path"),
        pytest.param(post(LARGE, "Host: twice"), id="malformed"),
    ],
)
async def test_body_of_a_refused_request_is_given_back(small, raw):
    stage, _ = small
    for _ in range(3):
        client = await stage.send(raw)
        assert (await client.answer()).status in {400, 404, 415}
        assert stage.stats.buffered_body_bytes == 0


async def test_body_of_a_request_that_failed_is_given_back(small):
    stage, engine = small
    engine.always(whole(b"no", status=400))
    for _ in range(3):
        assert (await stage.ask(LARGE)).status == 400
        assert stage.stats.buffered_body_bytes == 0
