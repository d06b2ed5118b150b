"""An engine that hangs is ended with the reason; one that works, however slowly, is left alone."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from llmgw.agent.supervisor import vigil
from llmgw.agent.supervisor.interviewing import HttpCheck
from llmgw.config.tending import SupervisorSettings
from llmgw.domain import work
from llmgw.domain.replicas import ShardState
from llmgw.domain.work import ShardWork
from tests.fakes.agents import Parts, is_alive, parts, read_pids, spec
from tests.fakes.engines import free_port
from tests.fakes.waiting import eventually

HANG_S = 0.6
WATCHED_S = 14.0
"""A silent engine is looked at twice within this, as each look takes six seconds."""


def verdicts(made):
    """Why shards are being ended; one that is stays ready until its engine is gone."""
    return {shard.record.failure for shard in made.supervisor.unended()}


async def test_a_ready_engine_that_hangs_is_ended_and_told_as_failed(tmp_path):
    async with parts(tmp_path, hang_timeout=HANG_S) as made:
        made.orders.start(spec("--say", "hello", port=free_port()))
        await made.until(ShardState.READY)
        pid = made.pid()
        os.kill(pid, signal.SIGSTOP)
        failed = await made.until(ShardState.FAILED)
        assert "no progress" in failed.error
        assert (failed.exit_code, failed.last_output != ()) == (None, True)
        assert not is_alive(pid)


@pytest.mark.slow
async def test_an_engine_that_hung_while_no_agent_ran_is_ended_by_the_next_one(tmp_path):
    made = Parts(tmp_path)
    made.orders.start(spec(port=free_port(), timeout_s=600))
    await made.until(ShardState.READY)
    pid = made.pid()
    await made.orders.close(stop_engines=False)
    os.kill(pid, signal.SIGSTOP)
    async with parts(tmp_path, hang_timeout=HANG_S) as following:
        await following.orders.recover()
        failed = await following.until(ShardState.FAILED)
        assert "no progress: it has not answered" in failed.error
        assert not is_alive(pid)
        assert "ready" not in following.states()


async def test_an_engine_that_is_stopped_while_it_loads_is_not_adopted_for_ever(tmp_path):
    pids = tmp_path / "pids"
    flags = ("--wait-for", str(tmp_path / "never"), "--pid-file", str(pids))
    made = Parts(tmp_path)
    made.orders.start(spec(*flags, port=free_port(), timeout_s=600))
    await made.until(ShardState.LOADING)
    [pid] = await read_pids(pids)
    await made.orders.close(stop_engines=False)
    os.kill(pid, signal.SIGSTOP)
    async with parts(tmp_path, hang_timeout=HANG_S) as following:
        await following.orders.recover()
        failed = await following.until(ShardState.FAILED)
    assert "it was stopped by a signal and did not go on for 0.6 s" in failed.error
    assert not is_alive(pid)


async def test_an_engine_that_loads_for_long_and_waits_meanwhile_is_left_alone(tmp_path):
    go, pids = tmp_path / "go", tmp_path / "pids"
    flags = ("--wait-for", str(go), "--pid-file", str(pids))
    async with parts(tmp_path, hang_timeout=HANG_S) as made:
        made.orders.start(spec(*flags, port=free_port(), timeout_s=600))
        [pid] = await read_pids(pids)
        for _ in range(3):
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(HANG_S / 3)
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(HANG_S / 3)
        go.touch()
        await made.until(ShardState.READY)
        assert made.states()[-2:] == ["loading", "ready"]


async def test_a_silent_engine_that_works_and_one_that_answers_are_left_alone(tmp_path):
    async with parts(tmp_path, hang_timeout=HANG_S) as made:
        # Several, for on a busy machine one alone may get less than what counts as work.
        made.orders.start(spec("--busy-children", "3", port=free_port()))
        made.orders.start(spec(shard_id="demo-2.0", port=free_port()))
        await made.until(ShardState.READY)
        await made.until(ShardState.READY, shard_id="demo-2.0")
        os.kill(made.pid(), signal.SIGSTOP)
        await asyncio.sleep(WATCHED_S)
        assert {shard.state for shard in made.orders.running()} == {ShardState.READY}
        assert verdicts(made) == {""}
        os.kill(made.pid(), signal.SIGCONT)


async def test_a_silent_engine_whose_card_works_is_left_alone(tmp_path):
    async with parts(tmp_path, hang_timeout=HANG_S) as made:
        made.cards_busy = {0: 100, 1: 90}
        made.orders.start(spec(port=free_port(), gpu_indices=(1,)))
        await made.until(ShardState.READY)
        os.kill(made.pid(), signal.SIGSTOP)
        await asyncio.sleep(WATCHED_S)
        assert made.states()[-1] == "ready"
        assert verdicts(made) == {""}
        made.cards_busy = {0: 100, 1: 0}
        assert "no progress" in (await made.until(ShardState.FAILED)).error


async def test_an_engine_that_answers_and_leaves_its_requests_lying_is_ended(tmp_path):
    count = tmp_path / "count"
    count.write_text("0")
    async with parts(tmp_path, hang_timeout=1.5) as made:
        made.orders.start(spec("--requests-in", str(count), port=free_port()))
        await made.until(ShardState.READY)
        await asyncio.sleep(3)
        assert made.states()[-1] == "ready", "it has nothing to do"
        count.write_text("2")
        failed = await made.until(ShardState.FAILED)
        assert "no progress: it answers, but what it has to do stands still" in failed.error


@pytest.mark.parametrize("children", ["--busy-children", "--lone-busy-children"])
async def test_work_of_every_process_of_a_shard_is_told(tmp_path, children):
    pids = tmp_path / "pids"
    async with parts(tmp_path) as made:
        made.cards_busy = {0: 3, 2: 40, 3: 20}
        flags = (children, "1", "--pid-file", str(pids))
        made.orders.start(spec(*flags, port=free_port(), gpu_indices=(2, 3)))
        await made.until(ShardState.READY)
        await read_pids(pids)
        [before] = await made.orders.work()
        assert (before.shard_id, before.gpu_utilization_percent) == ("demo-1.0", 40)
        await asyncio.sleep(1)
        [after] = await made.orders.work()
        assert work.has_worked(before, after, elapsed_s=2.0)
    assert [pid for pid in await read_pids(pids) if is_alive(pid)] == []


@pytest.fixture
def rivals():
    """Two processes that take all the time that they get."""
    words = [sys.executable, "-S", "-c", "while True: pass"]
    started = [subprocess.Popen(words) for _ in range(2)]
    yield [one.pid for one in started]
    for one in started:
        one.kill()
        one.wait()


async def test_an_engine_that_is_given_no_core_works_all_the_same(tmp_path, rivals):
    pids = tmp_path / "pids"
    [core, *_] = os.sched_getaffinity(0)
    async with parts(tmp_path) as made:
        flags = ("--busy-children", "1", "--pid-file", str(pids))
        made.orders.start(spec(*flags, port=free_port()))
        await made.until(ShardState.READY)
        for pid in [*await read_pids(pids), *rivals]:
            os.sched_setaffinity(pid, {core})
        [before] = await made.orders.work()
        await asyncio.sleep(1)
        [after] = await made.orders.work()
    waited_s = after.cpu_wait_s - before.cpu_wait_s
    assert waited_s > 0.1, "others have its core"
    assert waited_s + after.cpu_time_s - before.cpu_time_s > 0.5, "it wants one all the time"


async def test_an_idle_shard_has_not_worked_and_an_ended_one_says_nothing(tmp_path):
    async with parts(tmp_path, health_interval=5.0) as made:
        made.orders.start(spec(port=free_port()))
        await made.until(ShardState.READY)
        [before] = await made.orders.work()
        await asyncio.sleep(1)
        [after] = await made.orders.work()
        assert after.gpu_utilization_percent is None, "no card, which is not a card at rest"
        assert not work.has_worked(before, after, elapsed_s=1.0)
        made.orders.stop("demo-1.0")
        await made.until(ShardState.STOPPED)
        await eventually(lambda: made.orders.running() == ())
        assert await made.orders.work() == ()


class FakeEngine:
    """Ends after so many looks."""

    def __init__(self, looks):
        self.looks = looks

    async def wait(self, *, timeout_s):
        await asyncio.sleep(timeout_s)
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("is_held", [True, False])
async def test_an_engine_whose_address_has_vanished_is_no_hung_one(is_held):
    async def measure():
        return ShardWork("demo-1.0", cpu_time_s=1.0)

    with socket.create_server(("127.0.0.1", 0)) as closed:
        check = HttpCheck("127.0.0.1", closed.getsockname()[1], health_path="/health", model="")
    async with httpx.AsyncClient(trust_env=False) as client:
        verdict = await vigil.keep(
            FakeEngine(200),
            check,
            client=client,
            measure=measure,
            is_held=lambda address: is_held,
            settings=SupervisorSettings(health_interval=0.005, hang_timeout=0.05),
        )
    assert ("no progress" in verdict) is is_held
