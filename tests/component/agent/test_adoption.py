"""An agent is killed at every step, and the next one finds what is there: no leak, no double."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from llmgw.domain.replicas import PORT_IN_USE, ShardState
from llmgw.errors import AlreadyHeld
from tests.fakes import agents
from tests.fakes.agents import Parts, is_alive, parts, read_pids, spec
from tests.fakes.engines import free_port
from tests.fakes.waiting import eventually


def first_agent(tmp_path, wanted, **flags):
    """An agent of another process that starts a shard and kills itself at a report."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.agents", "--work-dir", str(tmp_path), *words],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    process.stdin.write(agents.to_json(wanted).encode())
    process.stdin.close()
    return process


def sleeper():
    return subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])


def run_first_agent(tmp_path, wanted, **flags):
    process = first_agent(tmp_path, wanted, **flags)
    assert process.wait(30) == -signal.SIGKILL


@pytest.mark.parametrize("state", ["starting", "loading", "ready"])
async def test_an_engine_is_adopted_with_its_pid_and_ready_again(tmp_path, state):
    wanted, pids = spec("--pid-file", str(tmp_path / "pids"), port=free_port()), tmp_path / "pids"
    run_first_agent(tmp_path, wanted, die_at=state)
    [pid] = await read_pids(pids)
    async with parts(tmp_path) as made:
        await made.orders.recover()
        await made.until(ShardState.READY)
        assert made.pid() == pid
        assert is_alive(pid)
        assert made.states() == ["starting", "loading", "ready"]
        [running] = made.orders.running()
        assert (running.replica_id, running.model, running.http_port, running.profile_fp) == (
            "demo-1",
            "demo",
            wanted.http_port,
            "v1:0123",
        )
        made.orders.start(wanted)
        assert made.pid() == pid, "the order is known already"
        made.orders.stop("demo-1.0")
        stopped = await made.until(ShardState.STOPPED)
        assert stopped.exit_code is None, "only the parent of a process learns its exit code"
        assert not is_alive(pid)
        assert list(made.work_dir.glob("shard-*")) == []


async def test_a_serving_engine_is_ready_when_recovery_returns(tmp_path):
    run_first_agent(tmp_path, spec(port=free_port()), die_at="ready")
    async with parts(tmp_path, health_interval=30.0) as made:
        started = time.monotonic()
        await made.orders.recover()
        [running] = made.orders.running()
        assert running.state is ShardState.READY
        assert time.monotonic() - started < 10, "not at the next look, in 30 s"


async def test_an_agent_killed_before_the_launch_leaves_nothing(tmp_path):
    run_first_agent(tmp_path, spec(port=free_port()), die_at="pending")
    async with parts(tmp_path) as made:
        await made.orders.recover()
        assert made.orders.running() == ()
        assert made.reports == []


async def test_a_drained_engine_is_adopted_as_drained(tmp_path):
    run_first_agent(tmp_path, spec(port=free_port()), drain_at="ready", die_at="draining")
    async with parts(tmp_path) as made:
        await made.orders.recover()
        assert made.states() == ["starting", "draining"]
        assert is_alive(made.pid())
        [running] = made.orders.running()
        assert running.state is ShardState.DRAINING


async def test_a_stop_that_was_begun_is_brought_to_its_end(tmp_path):
    run_first_agent(tmp_path, spec(port=free_port()), stop_at="ready", die_at="draining")
    async with parts(tmp_path) as made:
        await made.orders.recover()
        await made.until(ShardState.STOPPED)
        assert list(made.work_dir.glob("shard-*")) == []


@pytest.mark.parametrize("state", ["stopped", "failed"])
async def test_an_ended_shard_leaves_nothing_to_adopt(tmp_path, state):
    wanted = spec(*(["--exit", "1"] if state == "failed" else []), port=free_port())
    run_first_agent(tmp_path, wanted, stop_at="ready", die_at=state)
    async with parts(tmp_path) as made:
        await made.orders.recover()
        assert made.orders.running() == ()


async def test_a_half_started_shard_is_cleared_with_its_sidecar(tmp_path):
    side = tmp_path / "side"
    leader = {"leader_addr": "127.0.0.1", "leader_port": free_port()}
    sidecar = ("wait", "--ignore-term", "--pid-file", str(side))
    process = first_agent(tmp_path, spec(*sidecar, "|", "--say", "x", port=free_port(), **leader))
    [pid] = await read_pids(side)
    process.kill()
    process.wait(10)
    assert is_alive(pid)
    async with parts(tmp_path) as made:
        await made.orders.recover()
        assert not is_alive(pid)
        assert made.states() == ["failed"]
        assert list(made.work_dir.glob("shard-*")) == []


@pytest.mark.parametrize("ends", ["stop", "crash"])
async def test_a_sidecar_of_an_adopted_engine_ends_with_it(tmp_path, ends):
    side = tmp_path / "side"
    sidecar = ("--ignore-term", "--pid-file", str(side))
    run_first_agent(tmp_path, spec(*sidecar, "|", "--say", "x", port=free_port()), die_at="ready")
    [pid] = await read_pids(side)
    async with parts(tmp_path) as made:
        await made.orders.recover()
        assert is_alive(pid)
        if ends == "stop":
            made.orders.stop("demo-1.0")
        else:
            os.kill(made.pid(), signal.SIGKILL)
        await made.until(ShardState.STOPPED if ends == "stop" else ShardState.FAILED)
        assert not is_alive(pid)


async def test_an_engine_that_died_meanwhile_is_told_with_its_last_output(tmp_path):
    pids = tmp_path / "pids"
    wanted = spec(
        *("--say", "farewell", "--children", "1", "--lone-children", "1"),
        *("--pid-file", str(pids)),
        port=free_port(),
    )
    run_first_agent(tmp_path, wanted, die_at="ready")
    everyone = await read_pids(pids)
    os.kill(everyone[0], signal.SIGKILL)
    await eventually(lambda: not is_alive(everyone[0]))
    async with parts(tmp_path) as made:
        await made.orders.recover()
        [failed] = made.reports
        assert failed.state is ShardState.FAILED
        assert "[process0] farewell" in failed.last_output
        assert failed.exit_code is None
        assert [pid for pid in everyone if is_alive(pid)] == []


async def test_an_engine_that_lost_its_port_meanwhile_is_told_as_such(tmp_path):
    wanted = spec("--wait-for", str(tmp_path / "never"), port=free_port())
    run_first_agent(tmp_path, wanted, die_at="loading")
    stored = json.loads((tmp_path / "work" / "shard-demo-1.0.json").read_text())
    pid = stored["processes"][0]["pid"]
    with socket.create_server((agents.HOST, wanted.http_port)):
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: not is_alive(pid))
        async with parts(tmp_path) as made:
            await made.orders.recover()
            [failed] = made.reports
    assert failed.error.startswith(PORT_IN_USE)
    assert "ended while no agent was running" in failed.error


async def test_an_adopted_engine_that_dies_is_failed_without_a_made_up_exit_code(tmp_path):
    run_first_agent(tmp_path, spec("--say", "born", port=free_port()), die_at="ready")
    async with parts(tmp_path) as made:
        await made.orders.recover()
        os.kill(made.pid(), signal.SIGKILL)
        failed = await made.until(ShardState.FAILED)
        assert failed.exit_code is None
        assert "[process0] born" in failed.last_output, "output from before the adoption is kept"
        assert list(made.work_dir.glob("shard-*")) == []


async def test_output_goes_on_while_no_agent_runs_and_after_adoption(tmp_path):
    pids = tmp_path / "pids"
    wanted = spec("--pid-file", str(pids), "--terms-to-end", "2", port=free_port())
    run_first_agent(tmp_path, wanted, die_at="loading")
    [pid] = await read_pids(pids)
    os.kill(pid, signal.SIGTERM)
    async with parts(tmp_path) as made:
        await made.orders.recover()
        await eventually(lambda: made.orders.log_tail("demo-1.0", 1) == ("[process0] TERM 1",))
        made.orders.stop("demo-1.0")
        await made.until(ShardState.STOPPED)
        assert made.orders.log_tail("demo-1.0", 1) == ("[process0] TERM 2",)


async def test_a_damaged_state_file_is_cleared_and_its_engine_ended(tmp_path):
    run_first_agent(tmp_path, spec(port=free_port()), die_at="ready")
    path = tmp_path / "work" / "shard-demo-1.0.json"
    pid = json.loads(path.read_text())["processes"][0]["pid"]
    path.write_text('{"spec": {"shard_id": "demo')
    async with parts(tmp_path) as made:
        await made.orders.recover()
        assert not path.exists()
        assert made.orders.running() == ()
        assert not is_alive(pid), "the mark in its environment still names its shard"


@pytest.mark.parametrize("lie", ["boot_id", "start_ticks"])
async def test_a_reused_pid_is_neither_adopted_nor_signalled(tmp_path, lie):
    """The stranger that has the pid now lives on."""
    stranger = sleeper()
    try:
        run_first_agent(tmp_path, spec(port=free_port()), die_at="ready")
        path = tmp_path / "work" / "shard-demo-1.0.json"
        stored = json.loads(path.read_text())
        os.kill(stored["processes"][0]["pid"], signal.SIGKILL)
        stored["processes"][0]["pid"] = stranger.pid
        if lie == "boot_id":
            stored["boot_id"] = "another"
        path.write_text(json.dumps(stored))
        async with parts(tmp_path) as made:
            await made.orders.recover()
            assert made.orders.running() == ()
            assert not path.exists()
        assert is_alive(stranger.pid)
    finally:
        stranger.kill()
        stranger.wait()


async def test_an_adopted_engine_that_never_was_ready_keeps_its_first_budget(tmp_path):
    go = tmp_path / "go"
    wanted = spec("--wait-for", str(go), port=free_port(), timeout_s=900.0)
    run_first_agent(tmp_path, wanted, die_at="loading")
    path = tmp_path / "work" / "shard-demo-1.0.json"
    stored = json.loads(path.read_text())
    stored["started_at"] -= 10_000
    path.write_text(json.dumps(stored))
    made = Parts(tmp_path)
    [found] = await made.supervisor.recover(made.orders._handling)
    assert found.budget_s == pytest.approx(30.0)
    await made.orders.close(stop_engines=True)


async def test_an_agent_that_closes_leaves_its_engines_and_one_that_is_asked_ends_them(tmp_path):
    first = Parts(tmp_path)
    first.orders.start(spec(port=free_port()))
    await first.until(ShardState.READY)
    pid = first.pid()
    await first.orders.close(stop_engines=False)
    assert is_alive(pid)
    second = Parts(tmp_path)
    await second.orders.recover()
    assert second.pid() == pid
    await second.orders.close(stop_engines=True)
    assert not is_alive(pid)


async def test_a_second_agent_on_the_same_folder_is_refused_and_named_the_first(tmp_path):
    async with parts(tmp_path):
        with pytest.raises(AlreadyHeld, match=f"process {os.getpid()}"):
            Parts(tmp_path)
        await asyncio.sleep(0)
