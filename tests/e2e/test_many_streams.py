"""Two thousand streams at once while one engine is a black hole."""

from __future__ import annotations

import asyncio
import resource
import time

import pytest

from tests.fakes import mischief
from tests.fakes.crowd import Crowd, Ending, Habits, summary
from tests.fakes.mischief import BlackHole

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

STREAMS = 2_000
STRANDED = 100
"""Requests for the model that only the black hole has."""

TOKENS = 20
TPOT_MS = 1_000


@pytest.fixture
def many_files():
    """As many descriptors as the machine lets us have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_two_thousand_streams_do_not_notice_an_engine_that_is_a_black_hole(
    deployment, start_sim, many_files
):
    engines = [
        start_sim("sim", ttft_ms=500, tpot_ms=TPOT_MS, parallel=STREAMS, kv_tokens=10**7)
        for _ in range(2)
    ]
    with BlackHole(0) as hole:
        endpoints = [
            {"id": f"engine{n}", "url": e.url, "models": ["sim"]} for n, e in enumerate(engines)
        ]
        url = f"http://127.0.0.1:{hole.port}"
        endpoints.append({"id": "hole", "url": url, "models": ["sim", "stranded"]})
        deployment.server(endpoints=endpoints)
        port = int(deployment.url.rpartition(":")[2])
        habits = Habits(
            tokens=(TOKENS, TOKENS), stream_share=1.0, leave_share=0.0, think_s=2.5, patience_s=90
        )
        stranded = Habits(model="stranded", leave_share=0.0, think_s=0.5, patience_s=30)
        async with Crowd(port, clients=STRANDED, habits=stranded, per_client=1) as lost:
            async with Crowd(port, clients=STREAMS, habits=habits, per_client=1) as crowd:
                most = await most_at_once(engines, enough=STREAMS, within_s=60)
                await crowd.completed(within_s=120)
            print(f"\n{most} at once, {summary(crowd.visits)}")  # noqa: T201 - seen with -s
            assert most >= STREAMS
            assert {v.ending for v in crowd.visits} == {Ending.COMPLETED}
            assert len(crowd.visits) == STREAMS
            await lost.completed(within_s=90)
        assert Ending.COMPLETED not in {v.ending for v in lost.visits}
        await asyncio.to_thread(nothing_runs, engines)
        assert mischief.connections_to(port) == []


async def most_at_once(engines, *, enough, within_s):
    """The most streams that the engines ran at one moment."""
    most, deadline = 0, time.monotonic() + within_s
    while most < enough and time.monotonic() < deadline:
        running = [await asyncio.to_thread(e.metric, "vllm:num_requests_running") for e in engines]
        most = max(most, int(sum(running)))
        await asyncio.sleep(0.2)
    return most


def nothing_runs(engines):
    for engine in engines:
        engine.wait_metric("vllm:num_requests_running", 0, timeout_s=10)
