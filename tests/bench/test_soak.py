"""Ten minutes of ordinary traffic, a third of whose clients go away: a worker does not grow.

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

SERVICE_S = 0.3
"""About how long an answer takes."""

THINK_S = 0.5
HABITS = Habits(
    tokens=(8, 16), stream_share=0.7, leave_share=0.3, leave_within_s=SERVICE_S, think_s=THINK_S
)
CLIENTS = round(RATE * (THINK_S + SERVICE_S))
WARM_S = 240.0
"""Before it counts; by then what a worker keeps within bounds, as receipts, is full."""

GROWTH = 0.02
"""Of its memory, which a worker may gain after that: what an allocator breathes."""

FEW_FILES = 8

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(WARM_S + SOAK_S + 120)]


async def test_a_worker_does_not_grow_while_clients_come_and_go(deployment, start_sim):
    engines = [start_sim("sim", ttft_ms=50, tpot_ms=20, parallel=64) for _ in range(4)]
    deployment.server(
        endpoints=[
            {"id": f"engine{n}", "url": e.url, "models": ["sim"]} for n, e in enumerate(engines)
        ]
    )
    port = int(deployment.url.rpartition(":")[2])
    (worker,) = deployment.workers()
    files_before = mischief.open_files(worker)
    async with Crowd(port, clients=CLIENTS, habits=HABITS) as crowd:
        await asyncio.sleep(WARM_S)
        sizes = await sizes_over(worker, SOAK_S)
    growth = slope(sizes) * SOAK_S / sizes[0][1]
    print(f"\n{summary(crowd.visits)}\nmemory: {growth:+.2%}")  # noqa: T201 - seen with -s

    assert {v.ending for v in crowd.visits} == {Ending.COMPLETED, Ending.LEFT}
    assert len(crowd.visits) > SOAK_S * RATE / 2
    assert growth < GROWTH
    assert deployment.workers() == {worker}
    for engine in engines:
        await asyncio.to_thread(engine.wait_metric, "vllm:num_requests_running", 0)
    pooled = sum(len(mischief.connections_to(engine.port)) for engine in engines)
    await asyncio.to_thread(
        until,
        lambda: mischief.open_files(worker) <= files_before + pooled + FEW_FILES,
        "descriptors of clients are closed",
    )


async def sizes_over(pid, seconds):
    """Time and resident bytes of a process, once a second."""
    began = time.monotonic()
    sizes = []
    while (now := time.monotonic()) < began + seconds:
        sizes.append((now, mischief.rss_bytes(pid)))
        await asyncio.sleep(1)
    return sizes


def slope(sizes):
    """Bytes a second of the line through all points."""
    times, sizes_bytes = zip(*sizes, strict=True)
    return statistics.linear_regression(times, sizes_bytes).slope
