"""An address that takes no connection costs its own requests their time, nobody else anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.mischief import BlackHole
from tests.fakes.raw_client import post
from tests.fakes.upstream import whole

pytestmark = ON_ONE_LOOP

SYN_SENT = "02"
CLIENTS = 400
MOST_DIALS = 256
LOST = {"model": "lost"}


@pytest.fixture
def hole(stage):
    with BlackHole(0) as made:
        stage.list_model("lost")
        stage.list_endpoint("hole", f"http://127.0.0.1:{made.port}", models=("lost",))
        yield made


def dialled(hole):
    """Connections to it that wait for an answer of its machine."""
    count = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, theirs, state, *_ = line.split()
        count += state == SYN_SENT and int(theirs.rpartition(":")[2], 16) == hole.port
    return count


async def test_black_hole_holds_few_connections_and_nobody_else_waits(stage, hole):
    await stage.engine(answer=whole(b"good"))
    before = dialled(hole)  # the test's own, which fill its queue
    clients = [await stage.send(post(LOST)) for _ in range(CLIENTS)]
    await stage.until(lambda: stage.endpoint_stats("hole").inflight == CLIENTS)
    await stage.until(lambda: dialled(hole) == before + MOST_DIALS)
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    for _ in range(20):
        assert (await stage.ask()).body == b"good"
    assert loop.time() - began_at < 2
    assert dialled(hole) == before + MOST_DIALS
    for client in clients:
        client.leave()
    await stage.until(lambda: dialled(hole) == before, within_s=10)
    await stage.settled()
    assert stage.states == {"cancelled": CLIENTS, "completed": 20}


async def test_who_waits_for_its_turn_to_dial_waits_no_longer_than_a_dial_may_take(stage, hole):
    stage.tune(
        dispatch={"dial_timeout_s": 0.6, "max_attempts": 1}, breaker={"failure_threshold": 10_000}
    )
    clients = [await stage.send(post(LOST)) for _ in range(CLIENTS)]
    answers = [await client.answer(within_s=10) for client in clients]
    assert {(one.status, one.code) for one in answers} == {(502, "upstream_unreachable")}


async def test_burst_of_fresh_connections_to_a_healthy_engine_is_served_whole(stage):
    engine = await stage.engine()
    release = asyncio.Event()
    engine.always(release, whole(b"good"))
    clients = [await stage.send(post(ASK)) for _ in range(CLIENTS)]
    await engine.asked(CLIENTS)
    release.set()
    assert {bytes((await client.answer()).body) for client in clients} == {b"good"}
    assert stage.failed_attempts == {}
