"""An answer that has begun and brings nothing more is cut, told and counted."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import End, post
from tests.fakes.upstream import CHUNKED, DONE, END, EVENTS, Do, chunk, event, head

pytestmark = ON_ONE_LOOP

STREAM = {**ASK, "stream": True}


@pytest.fixture
def impatient(stage):
    """Bounds that a test can wait for."""
    stage.tune(stream={"idle_suspect_s": 0.4, "idle_hard_s": 2.0})
    stage.settings = dataclasses.replace(stage.settings, scrape_interval=0.0)
    return stage


def eject(stage):
    """Whoever scrapes found that the engine makes no progress."""
    [live] = stage.gateway._registry.all()
    live.seat.eject(1.0, is_stalled=True)


async def test_stream_of_a_stuck_engine_is_cut_with_an_error_event(impatient):
    engine = await impatient.engine()
    engine.always(EVENTS + chunk(event("a")), Do.HOLD)
    client = await impatient.send(post(STREAM))
    await client.got(event("a"))
    eject(impatient)
    assert await client.end() is End.CLOSED
    assert b'"code":"stream_truncated"' in client.raw
    assert b"[DONE]" not in client.raw
    totals = impatient.stats.totals
    assert totals.by_model["m"].cuts == {"stuck": 1}
    assert totals.stalled == {"e1": 1}
    await engine.until(lambda: not engine.open)


async def test_silent_stream_of_a_working_engine_goes_on(impatient):
    engine = await impatient.engine()
    engine.always(EVENTS + chunk(event("a")), 1.2, chunk(event("b")) + chunk(DONE) + END)
    client = await impatient.send(post(STREAM))
    assert (await client.answer()).is_complete
    assert impatient.stats.totals.truncated == 0


async def test_hard_bound_cuts_whatever_the_engine_does(impatient):
    engine = await impatient.engine()
    engine.always(EVENTS + chunk(event("a")), Do.HOLD)
    client = await impatient.send(post(STREAM))
    assert await client.end() is End.CLOSED
    assert impatient.stats.totals.by_model["m"].cuts == {"silent": 1}


async def test_comments_of_a_stream_are_no_sign_of_work(impatient):
    engine = await impatient.engine()
    pings = [step for _ in range(60) for step in (0.1, chunk(b": ping\n\n"))]
    engine.always(EVENTS + chunk(event("a")), *pings, Do.HOLD)
    client = await impatient.send(post(STREAM))
    async with asyncio.timeout(8):
        await client.end()
    assert impatient.stats.totals.by_model["m"].cuts == {"silent": 1}


async def test_body_that_is_no_stream_has_the_same_bounds(impatient):
    engine = await impatient.engine()
    engine.always(CHUNKED + chunk(b"part"), Do.HOLD)
    client = await impatient.send(post(ASK))
    assert await client.end() is End.CLOSED
    assert client.raw.endswith(b"part\r\n"), "nothing is added"
    assert impatient.stats.totals.by_model["m"].cuts == {"silent": 1}


@pytest.mark.parametrize("status", [400, 302])
async def test_rest_of_a_refusal_is_awaited_for_half_a_minute(stage, status):
    """Of its body only: its head was passed on at once."""
    stage.clock = clock = FakeClock()
    engine = await stage.engine()
    engine.always(head(status, "Content-Length: 9") + b"part", Do.HOLD)
    client = await stage.send(post(ASK))
    await client.got(b"part")
    for _ in range(3):
        clock.advance(9)
        await asyncio.sleep(0.3)
    assert client.ended is None
    for _ in range(2):
        clock.advance(9)
        await asyncio.sleep(0.3)
    assert await client.end() is End.CLOSED
    assert (await client.answer()).is_complete is False
    await engine.until(lambda: not engine.open)
