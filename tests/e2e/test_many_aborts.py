"""Half of thousands of clients leave at random moments: nothing is held, and all sums are equal."""

from __future__ import annotations

import asyncio
import random

import orjson
import pytest

from llmgw.domain.pricing import Price
from tests.fakes.gateway_stage import ASK, Stage
from tests.fakes.key_ring import KeyRing
from tests.fakes.principals import principal
from tests.fakes.raw_client import post
from tests.fakes.upstream import DONE, END, EVENTS, chunk, event

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

REQUESTS = 10_000
AT_ONCE = 50
PROMPT, COMPLETION = 12, 4
USAGE = b"data: " + orjson.dumps(
    {"choices": [], "usage": {"prompt_tokens": PROMPT, "completion_tokens": COMPLETION}}
)
LIMITS = {"rpm": 10**6, "tpm": 10**9, "budget": 10**12, "concurrency": AT_ONCE * 2}


@pytest.fixture
async def stage():
    stage = Stage()
    yield stage
    await stage.close()


async def _be_a_client(stage, lot, number):
    """Ask, and half of the time leave before the answer is whole."""
    client = await stage.send(post({**ASK, "stream": True}, "Authorization: Bearer sk-1"))
    if lot.random() < 0.5:
        await asyncio.sleep(lot.random() * 0.012)
        client.leave()
    else:
        assert (await client.answer(within_s=60)).status == 200, number


async def test_half_of_thousands_leave_and_every_sum_is_equal(stage):
    ring = KeyRing(default=Price(1000, 1000))
    ring.known_now["sk-1"] = principal(
        org_limits=LIMITS, team_limits=LIMITS, project_limits=LIMITS, key_limits=LIMITS
    )
    stage.doors = ring.doors()
    engine = await stage.engine()
    words = [step for _ in range(COMPLETION) for step in (chunk(event("w")), 0.001)]
    engine.always(EVENTS, *words, chunk(USAGE + b"\n\n") + chunk(DONE) + END)
    lot = random.Random(7)
    numbers = iter(range(REQUESTS))

    async def go_on():
        for number in numbers:
            await _be_a_client(stage, lot, number)

    await asyncio.gather(*(go_on() for _ in range(AT_ONCE)))
    await stage.settled()
    assert ring.gate.holds == 0
    assert stage.stats.totals.inflight == 0
    for scope in ("org:o1", "team:t1", "project:p1", "key:sk-1"):
        counter = ring.gate._board.counter(scope.replace("sk-1", "k1"))
        assert (counter.running, counter.reserved) == (0, 0)
        assert counter.spent("lifetime", ring.gate._at) == ring.spent
    _check_rows(ring, engine)


def _check_rows(ring, engine):
    heard = {request.fields[b"x-request-id"][0].decode() for request in engine.requests}
    assert {row.request_id for row in ring.rows} >= heard
    assert len({row.request_id for row in ring.rows}) == len(ring.rows)
    ended = {"finished": 0, "aborted": 0}
    for row in ring.rows:
        ended[row.outcome] += 1
        if row.outcome == "finished":
            assert (row.prompt_tokens, row.completion_tokens) == (PROMPT, COMPLETION)
            assert not row.is_estimated
        else:
            assert row.is_estimated
            assert row.prompt_tokens <= PROMPT
            assert row.completion_tokens <= COMPLETION
    assert min(ended.values()) > REQUESTS / 5
