"""Ten minutes of ordinary traffic, a third of whose clients go away: a worker does not grow.

Everything that a worker remembers is on, with bounds so small that a short rush fills it all; more
requests are under way at once then than ever later.  From then on nothing may grow: neither its
memory while it works, nor what it holds at rest.
``SOAK_SECONDS`` makes it longer or shorter.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time

import pytest

from tests.fakes import mischief
from tests.fakes.crowd import Crowd, Ending, Habits, summary
from tests.fakes.deployment import until

SOAK_S = float(os.environ.get("SOAK_SECONDS", "600"))
RATE = 200.0
"""Requests a second."""

LEFT_SHARE = 0.3
"""Of the requests, at least, whose clients go away."""

HABITS = Habits(
    tokens=(4, 8),
    prompt_bytes=256,
    stream_share=0.7,
    leave_share=0.45,
    leave_within_s=0.2,
    think_s=0.5,
)
CLIENTS = round(RATE * 0.7)
"""A request and the pause before it take about 0.65 s."""

RUSH_S = 20.0
RUSH = Habits(tokens=(4, 8), prompt_bytes=256, leave_share=0.45, leave_within_s=0.2, think_s=0.2)

REMEMBERED = {
    "receipts_bytes": 131_072,
    "prefix": {"enabled": True, "max_nodes": 256, "ttl": 10},
    "events_file": "/dev/null",
}
"""Full after a few seconds of a rush."""

GROWTH_BYTES = 4.0
"""That a worker may gain for each request, as its allocators take; a page comes to 0.03."""

GROWTH_BLOCKS = 0.01
"""Of Python's own that it may hold more at rest, for each request: one of a hundred requests."""

BREATH_BLOCKS = 1_500
"""What comes and goes all the time: receipts are found by an index that grows and starts anew."""

UNUSED_S = 120.0
"""A connection that nobody uses is kept for a minute."""

FEW_FILES = 8
NOTHING_LEFT = (
    "llmgw_requests_inflight",
    "llmgw_connections",
    "llmgw_queue_depth",
    "llmgw_leases_swept_total",
    "llmgw_endpoint_inflight",
    "llmgw_endpoint_reserved",
    "llmgw_request_bytes_buffered",
    "llmgw_stream_bytes_buffered",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.timeout(RUSH_S + 1.5 * SOAK_S + 2 * UNUSED_S + 120),
]


async def test_a_worker_does_not_grow_while_clients_come_and_go(deployment, start_sim):
    engines = [start_sim("sim", ttft_ms=50, tpot_ms=20, parallel=128) for _ in range(4)]
    deployment.server(
        endpoints=[
            {"id": f"engine{n}", "url": e.url, "models": ["sim"]} for n, e in enumerate(engines)
        ],
        router=REMEMBERED,
    )
    port = int(deployment.url.rpartition(":")[2])
    (worker,) = deployment.workers()
    files_before = mischief.open_files(worker)
    tasks_before = deployment.figures()["llmgw_tasks"]
    async with Crowd(port, clients=2 * CLIENTS, habits=RUSH) as crowd:
        await asyncio.sleep(RUSH_S)
    await asyncio.to_thread(nothing_is_left, deployment, engines, tasks_before)
    blocks_before = deployment.figures()["llmgw_memory_blocks"]
    async with Crowd(port, clients=CLIENTS, habits=HABITS, seed=2) as crowd:
        sizes = await sizes_over(worker, crowd)
    lasted_s, requests = sizes[-1][0] - sizes[0][0], len(crowd.visits)
    growth_bytes = slope(sizes) * lasted_s / requests
    await asyncio.to_thread(nothing_is_left, deployment, engines, tasks_before)
    blocks = deployment.figures()["llmgw_memory_blocks"] - blocks_before
    left = sum(visit.ending is Ending.LEFT for visit in crowd.visits)
    print(  # noqa: T201 - seen with -s
        f"\n{summary(crowd.visits)}\n{requests / lasted_s:.0f} requests/s, {left / requests:.0%} "
        f"left, memory: {growth_bytes:+.2f} bytes a request, {blocks:+.0f} blocks"
    )

    assert {v.ending for v in crowd.visits} == {Ending.COMPLETED, Ending.LEFT}
    assert requests >= RATE * SOAK_S
    assert left >= LEFT_SHARE * requests
    assert growth_bytes < GROWTH_BYTES
    assert blocks < BREATH_BLOCKS + GROWTH_BLOCKS * requests
    assert deployment.workers() == {worker}
    pooled = sum(len(mischief.connections_to(engine.port)) for engine in engines)
    await asyncio.to_thread(
        until,
        lambda: mischief.open_files(worker) <= files_before + pooled + FEW_FILES,
        "descriptors of clients are closed",
    )


async def sizes_over(pid, crowd):
    """Time and bytes of a process, once a second, until both time and requests are enough.

    On a busy machine the requests take longer to come together.
    """
    began = time.monotonic()
    sizes = []
    while (now := time.monotonic()) < began + SOAK_S or len(crowd.visits) < RATE * SOAK_S:
        assert now < began + 1.5 * SOAK_S, f"only {len(crowd.visits)} requests in {now - began} s"
        sizes.append((now, mischief.anonymous_bytes(pid)))
        await asyncio.sleep(1)
    return sizes


def slope(sizes):
    """Bytes a second of the line through all points."""
    times, sizes_bytes = zip(*sizes, strict=True)
    return statistics.linear_regression(times, sizes_bytes).slope


def nothing_is_left(deployment, engines, tasks):
    """No engine works for anybody; no request, lease, byte or task is left in the worker.

    Nor a connection kept for later: how many there are tells how busy the last minute was.
    """
    for engine in engines:
        engine.wait_metric("vllm:num_requests_running", 0)
    until(
        lambda: not any(deployment.figures().get(name) for name in NOTHING_LEFT),
        "nothing is under way",
        within_s=15,
    )
    until(
        lambda: deployment.figures()["llmgw_tasks"] <= tasks,
        f"no more than {tasks:g} tasks, as before",
        within_s=15,
    )
    until(
        lambda: (
            sum(len(mischief.connections_to(engine.port)) for engine in engines) <= len(engines)
        ),
        "no more connections than engines, which are looked at, are kept",
        within_s=UNUSED_S,
    )
