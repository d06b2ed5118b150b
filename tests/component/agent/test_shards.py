"""Shards as real processes: started, made ready, drained, ended, and told of truly."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from dataclasses import replace

import pytest

from llmgw.agent.engines.contract import StopStep
from llmgw.domain.replicas import PORT_IN_USE, ShardState
from llmgw.errors import Unknown
from tests.fakes.agents import ScriptedDriver, is_alive, parts, read_pids, spec
from tests.fakes.engines import free_port
from tests.fakes.waiting import eventually


async def test_a_started_shard_goes_through_every_state_to_ready_and_to_stopped(tmp_path):
    async with parts(tmp_path) as made:
        made.orders.start(spec(port=free_port()))
        await made.until(ShardState.READY)
        pid = made.pid()
        assert is_alive(pid)
        [running] = made.orders.running()
        assert (running.state, running.model, running.pool) == (ShardState.READY, "demo", "cpu")
        made.orders.stop("demo-1.0")
        stopped = await made.until(ShardState.STOPPED)
        assert stopped.exit_code == 0
        assert stopped.node_id == "node01"
        assert made.states() == ["pending", "starting", "loading", "ready", "draining", "stopped"]
        assert not is_alive(pid)
        assert made.orders.running() == ()
        assert list(made.work_dir.glob("shard-*")) == []


@pytest.mark.parametrize("at", ["pending", "starting", "loading", "ready", "draining"])
async def test_a_stop_in_any_state_ends_in_stopped_with_nothing_alive(tmp_path, at):
    pids = tmp_path / "pids"
    async with parts(tmp_path) as made:

        def stop(report):
            if report.state == at:
                made.orders.stop(report.shard_id)
                made.orders.stop(report.shard_id)

        made.on_report = stop
        made.orders.start(spec("--children", "1", "--pid-file", str(pids), port=free_port()))
        if at == "draining":
            await made.until(ShardState.READY)
            made.orders.drain("demo-1.0")
        await made.until(ShardState.STOPPED)
        assert made.states().count("stopped") == 1
        assert "failed" not in made.states()
        everyone = await read_pids(pids) if pids.exists() else []
        assert [pid for pid in everyone if is_alive(pid)] == []
        assert list(made.work_dir.glob("shard-*")) == []


@pytest.mark.parametrize("at", ["starting", "loading", "ready", "draining"])
async def test_an_engine_killed_in_any_state_ends_in_failed_once(tmp_path, at):
    async with parts(tmp_path) as made:

        def kill(report):
            if report.state == at:
                os.kill(made.pid(), signal.SIGKILL)

        made.on_report = kill
        made.orders.start(spec(port=free_port()))
        if at == "draining":
            await made.until(ShardState.READY)
            made.orders.drain("demo-1.0")
        failed = await made.until(ShardState.FAILED)
        assert failed.exit_code == -signal.SIGKILL
        assert made.states()[-1] == "failed"
        assert made.states().count("failed") == 1


async def test_a_repeated_start_keeps_the_process_and_tells_its_state_again(tmp_path):
    async with parts(tmp_path) as made:
        wanted = spec(port=free_port())
        made.orders.start(wanted)
        await made.until(ShardState.READY)
        pid = made.pid()
        made.orders.start(wanted)
        assert made.states()[-2:] == ["ready", "ready"]
        assert made.pid() == pid


async def test_a_failed_shard_may_be_started_again(tmp_path):
    async with parts(tmp_path) as made:
        made.orders.start(spec("--exit", "3", port=free_port()))
        await made.until(ShardState.FAILED)
        made.orders.start(spec(port=free_port()))
        await made.until(ShardState.READY)
        assert made.states().count("failed") == 1
        assert made.states()[-1] == "ready"


@pytest.mark.parametrize("code", [0, 42])
async def test_an_engine_that_ends_unasked_is_failed_with_code_and_output(tmp_path, code):
    async with parts(tmp_path) as made:
        started = time.monotonic()
        made.orders.start(spec("--say", "out of luck", "--exit", str(code), port=free_port()))
        failed = await made.until(ShardState.FAILED)
        assert failed.exit_code == code
        assert "unexpectedly" in failed.error
        assert failed.last_output == (
            "[process0] out of luck",
            "[process0] out of luck (stderr)",
        )
        assert time.monotonic() - started < 10, "the exit is told at once, not at the timeout"
        assert list(made.work_dir.glob("shard-*")) == []


async def test_a_killed_engine_is_told_with_its_signal(tmp_path):
    async with parts(tmp_path) as made:
        pids = tmp_path / "pids"
        made.orders.start(
            spec(
                "--children", "1", "--lone-children", "1", "--pid-file", str(pids), port=free_port()
            )
        )
        await made.until(ShardState.READY)
        everyone = await read_pids(pids)
        os.kill(everyone[0], signal.SIGKILL)
        failed = await made.until(ShardState.FAILED)
        assert failed.exit_code == -signal.SIGKILL
        assert "SIGKILL" in failed.error
        assert [pid for pid in everyone if is_alive(pid)] == [], "what it left behind is ended"


async def test_a_stop_ends_forked_children_too_even_in_a_session_of_their_own(tmp_path):
    async with parts(tmp_path) as made:
        pids = tmp_path / "pids"
        made.orders.start(
            spec(
                "--children", "2", "--lone-children", "1", "--pid-file", str(pids), port=free_port()
            )
        )
        await made.until(ShardState.READY)
        everyone = await read_pids(pids)
        assert len(everyone) == 4
        made.orders.stop("demo-1.0")
        await made.until(ShardState.STOPPED)
        assert [pid for pid in everyone if is_alive(pid)] == []


async def test_an_engine_that_ignores_sigterm_is_killed_after_its_plan(tmp_path):
    driver = ScriptedDriver(steps=[StopStep(signal.SIGTERM, 0.3)])
    async with parts(tmp_path, driver=driver) as made:
        made.orders.start(spec("--ignore-term", port=free_port()))
        await made.until(ShardState.READY)
        started = time.monotonic()
        made.orders.stop("demo-1.0")
        stopped = await made.until(ShardState.STOPPED)
        assert stopped.exit_code == -signal.SIGKILL
        assert 0.3 <= time.monotonic() - started < 5


async def test_a_stop_plan_may_ask_twice(tmp_path):
    steps = [StopStep(signal.SIGTERM, 0.3), StopStep(signal.SIGTERM, 10.0)]
    async with parts(tmp_path, driver=ScriptedDriver(steps=steps)) as made:
        made.orders.start(spec("--terms-to-end", "2", port=free_port()))
        await made.until(ShardState.READY)
        made.orders.stop("demo-1.0")
        stopped = await made.until(ShardState.STOPPED)
        assert stopped.exit_code == 0
        assert made.orders.log_tail("demo-1.0", 2) == ("[process0] TERM 1", "[process0] TERM 2")


async def test_a_running_engine_that_never_serves_fails_at_its_startup_timeout(tmp_path):
    async with parts(tmp_path) as made:
        made.orders.start(
            spec("--health", "503", "--say", "hello", port=free_port(), timeout_s=2.0)
        )
        failed = await made.until(ShardState.FAILED)
        assert "not ready within 2 s" in failed.error
        assert "health" in failed.error
        assert failed.last_output
        assert failed.exit_code is None, "the agent ended it: its exit code tells no cause"
        assert "ready" not in made.states()


async def test_an_engine_with_another_model_is_not_ready(tmp_path):
    class Renaming(ScriptedDriver):
        def commands(self, spec):
            [command] = super().commands(spec)
            args = tuple("other" if arg == "demo" else arg for arg in command.args)
            return (replace(command, args=args),)

    async with parts(tmp_path, driver=Renaming()) as made:
        made.orders.start(spec(port=free_port(), timeout_s=1.0))
        failed = await made.until(ShardState.FAILED)
        assert "does not serve 'demo' but other" in failed.error


async def test_another_process_that_answers_on_the_port_is_not_taken_for_the_engine(tmp_path):
    """The engine lives without listening, and somebody else says all the right things."""
    go = tmp_path / "go"
    async with parts(tmp_path) as made:
        port = free_port()
        made.orders.start(spec("--wait-for", str(go), port=port, timeout_s=1.5))
        await made.until(ShardState.LOADING)
        async with parts(tmp_path / "other") as other:
            other.orders.start(spec(port=port))
            await other.until(ShardState.READY)
            failed = await made.until(ShardState.FAILED)
        assert PORT_IN_USE in failed.error
        assert "process " in failed.error
        assert "ready" not in made.states()


async def test_a_port_held_by_a_stranger_is_refused_before_the_start(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        async with parts(tmp_path) as made:
            made.orders.start(spec(port=stranger.getsockname()[1]))
            failed = await made.until(ShardState.FAILED)
            assert failed.error.startswith(PORT_IN_USE)
            assert made.states() == ["pending", "failed"]


async def test_a_drained_shard_stays_alive_and_is_not_ready_again(tmp_path):
    async with parts(tmp_path) as made:
        made.orders.start(spec(port=free_port()))
        await made.until(ShardState.READY)
        made.orders.drain("demo-1.0")
        made.orders.drain("demo-1.0")
        assert made.states()[-2:] == ["draining", "draining"]
        assert is_alive(made.pid())


async def test_a_shard_drained_while_it_loads_does_not_become_ready(tmp_path):
    go = tmp_path / "go"
    async with parts(tmp_path) as made:
        made.orders.start(spec("--wait-for", str(go), port=free_port()))
        await made.until(ShardState.LOADING)
        made.orders.drain("demo-1.0")
        go.touch()
        await asyncio.sleep(0.5)
        assert made.states() == ["pending", "starting", "loading", "draining"]


async def test_a_rank_without_a_port_is_ready_by_staying_alive(tmp_path):
    async with parts(tmp_path) as made:
        made.orders.start(spec("--say", "here", rank=1, nnodes=2))
        await made.until(ShardState.READY)
        made.orders.start(spec("--exit", "7", rank=1, nnodes=2, shard_id="demo-1.1"))
        failed = await made.until(ShardState.FAILED, shard_id="demo-1.1")
        assert failed.exit_code == 7


@pytest.mark.parametrize("order", ["stop", "drain"])
async def test_an_order_for_a_shard_that_is_not_here_is_answered_that_it_does_not_run(
    tmp_path, order
):
    async with parts(tmp_path) as made:
        getattr(made.orders, order)("ghost-1.0")
        assert made.states("ghost-1.0") == ["stopped"]


async def test_a_drain_of_a_shard_that_has_not_started_or_has_ended_says_where_it_stands(tmp_path):
    leader = {"rank": 1, "leader_addr": "127.0.0.1", "leader_port": free_port()}
    async with parts(tmp_path) as made:
        made.orders.start(spec("wait", **leader))
        made.orders.drain("demo-1.0")
        assert made.states() == ["pending", "pending"]
        made.orders.stop("demo-1.0")
        await made.until(ShardState.STOPPED)
        made.orders.drain("demo-1.0")
        assert made.states() == ["pending", "pending", "stopped", "stopped"]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        pytest.param({"args": ("--invalid",)}, "the profile asks for it", id="validation"),
        pytest.param({"args": ("missing",)}, "No such file", id="no-program"),
        pytest.param({"source": "/no/such/model.gguf"}, "/no/such/model.gguf", id="no-weights"),
        pytest.param({"gpu_indices": (7,)}, "no GPU 7", id="no-card"),
    ],
)
async def test_a_start_that_cannot_be_is_failed_with_the_reason_and_leaves_nothing(
    tmp_path, wanted, reason
):
    async with parts(tmp_path) as made:
        made.orders.start(spec(*wanted.pop("args", ()), port=free_port(), **wanted))
        failed = await made.until(ShardState.FAILED)
        assert reason in failed.error
        assert made.states() == ["pending", "failed"]
        assert list(made.work_dir.glob("shard-*")) == []


async def test_a_sidecar_runs_beside_the_engine_and_ends_with_it(tmp_path):
    side, main = tmp_path / "side", tmp_path / "main"
    async with parts(tmp_path) as made:
        made.orders.start(
            spec(
                "--say",
                "s",
                "--pid-file",
                str(side),
                "|",
                "--pid-file",
                str(main),
                port=free_port(),
            )
        )
        await made.until(ShardState.READY)
        [sidecar], [engine] = await read_pids(side), await read_pids(main)
        assert made.pid() == engine
        assert "[process0] s" in made.orders.log_tail("demo-1.0", 10)
        made.orders.stop("demo-1.0")
        await made.until(ShardState.STOPPED)
        assert not is_alive(sidecar)


async def test_a_crash_of_the_engine_takes_the_sidecar_along_even_a_stubborn_one(tmp_path):
    side = tmp_path / "side"
    async with parts(tmp_path) as made:
        made.orders.start(
            spec(
                *("--ignore-term", "--pid-file", str(side), "|"),
                *("--wait-for", str(side), "--exit", "1"),
                port=free_port(),
            )
        )
        [sidecar] = await read_pids(side)
        await made.until(ShardState.FAILED)
        assert not is_alive(sidecar)


async def test_a_sidecar_that_cannot_start_fails_the_shard_and_is_named(tmp_path):
    async with parts(tmp_path) as made:
        made.orders.start(spec("missing", "|", "--say", "x", port=free_port()))
        failed = await made.until(ShardState.FAILED)
        assert "sidecar process0" in failed.error


async def test_the_leaders_port_holds_back_the_engine_of_the_leader(tmp_path):
    """The sidecar opens the rendezvous port; only then may the engine start."""
    go, main, meeting = tmp_path / "go", tmp_path / "main", free_port()
    sidecar = ("wait", "--wait-for", str(go), "--listen", f"127.0.0.1:{meeting}")
    async with parts(tmp_path) as made:
        wanted = spec(
            *sidecar,
            "|",
            "--pid-file",
            str(main),
            port=free_port(),
            leader_addr="127.0.0.1",
            leader_port=meeting,
        )
        made.orders.start(wanted)
        await asyncio.sleep(0.5)
        assert not main.exists()
        go.touch()
        await made.until(ShardState.READY)


async def test_a_lone_command_of_another_rank_also_waits_for_the_leader(tmp_path):
    pids = tmp_path / "pids"
    leader = {"leader_addr": "127.0.0.1", "leader_port": free_port()}
    async with parts(tmp_path, rendezvous_timeout=1.0) as made:
        made.orders.start(spec("wait", "--pid-file", str(pids), rank=1, nnodes=2, **leader))
        failed = await made.until(ShardState.FAILED)
        assert f"127.0.0.1:{leader['leader_port']}" in failed.error
        assert not pids.exists()
        with socket.create_server(("127.0.0.1", leader["leader_port"])):
            made.reports.clear()
            made.orders.start(spec("wait", "--pid-file", str(pids), rank=1, nnodes=2, **leader))
            await made.until(ShardState.READY)


async def test_a_start_that_is_ordered_again_waits_on_for_the_leader(tmp_path):
    leader = {"leader_addr": "127.0.0.1", "leader_port": free_port()}
    wanted = spec("wait", rank=1, nnodes=2, **leader)
    async with parts(tmp_path, rendezvous_timeout=2.0) as made:
        made.orders.start(wanted)
        for _ in range(7):
            await asyncio.sleep(0.4)
            made.orders.start(wanted)
        assert set(made.states()) == {"pending"}
        with socket.create_server(("127.0.0.1", leader["leader_port"])):
            await made.until(ShardState.READY)


async def test_a_sidecar_that_dies_during_the_rendezvous_fails_the_shard_at_once(tmp_path):
    async with parts(tmp_path, rendezvous_timeout=60.0) as made:
        leader = {"leader_addr": "127.0.0.1", "leader_port": free_port()}
        made.orders.start(
            spec("wait", "--exit", "1", "|", "--say", "x", port=free_port(), **leader)
        )
        failed = await made.until(ShardState.FAILED)
        assert "process0 ended" in failed.error


async def test_a_stop_during_the_rendezvous_starts_nothing_later(tmp_path):
    side, main = tmp_path / "side", tmp_path / "main"
    async with parts(tmp_path, rendezvous_timeout=60.0) as made:
        leader = {"leader_addr": "127.0.0.1", "leader_port": free_port()}
        sidecar = ("wait", "--pid-file", str(side))
        made.orders.start(spec(*sidecar, "|", "--pid-file", str(main), port=free_port(), **leader))
        [pid] = await read_pids(side)
        made.orders.stop("demo-1.0")
        await made.until(ShardState.STOPPED)
        assert not is_alive(pid)
        with socket.create_server(("127.0.0.1", leader["leader_port"])):
            await asyncio.sleep(0.5)
        assert not main.exists()
        assert made.states() == ["pending", "stopped"]


async def test_output_of_a_failed_shard_stays_readable_and_that_of_old_ones_goes(tmp_path):
    async with parts(tmp_path) as made:
        for number in range(18):
            folder = made.work_dir / "output" / f"old-{number}.0"
            folder.mkdir(parents=True)
            (folder / "00-engine.log").write_text(f"line {number}\n")
        made.orders.start(spec("--say", "last words", "--exit", "1", port=free_port()))
        await made.until(ShardState.FAILED)
        assert "[process0] last words" in made.orders.log_tail("demo-1.0", 5)
        made.orders.start(spec(port=free_port(), shard_id="demo-2.0"))
        await made.until(ShardState.READY, shard_id="demo-2.0")
        sources = made.orders.log_sources()
        assert {"agent", "demo-1.0", "demo-2.0"} <= set(sources)
        assert len(sources) <= 2 + 16
        with pytest.raises(Unknown):
            made.orders.log_tail("no-such.0", 5)


async def test_output_is_trimmed_while_the_engine_writes(tmp_path):
    async with parts(tmp_path, max_log_bytes=65536) as made:
        await made.orders.recover()
        long = [word for n in range(40) for word in ("--say", f"{n:02} " + "x" * 1500)]
        made.orders.start(spec(*long, port=free_port()))
        await made.until(ShardState.READY)
        folder = made.work_dir / "output" / "demo-1.0"
        await eventually((folder / "00-process0.log.1").exists)
        assert (folder / "00-process0.log").stat().st_size <= 65536
        assert made.orders.log_tail("demo-1.0", 2)[-1].startswith("[process0] 39 ")


async def test_a_draining_engine_is_told_as_drained_once_it_has_no_request(tmp_path):
    count = tmp_path / "count"
    count.write_text("1")
    async with parts(tmp_path) as made:
        made.orders.start(spec("--requests-in", str(count), port=free_port()))
        await made.until(ShardState.READY)
        made.orders.drain("demo-1.0")
        await asyncio.sleep(3.5)
        assert not any(report.is_drained for report in made.reports)
        count.write_text("0")
        await eventually(lambda: made.reports[-1].is_drained)
        assert made.states()[-2:] == ["draining", "draining"]
        made.orders.drain("demo-1.0")
        assert made.reports[-1].is_drained, "an order that comes twice is answered the same"
        made.orders.stop("demo-1.0")
        assert not (await made.until(ShardState.STOPPED)).is_drained


async def test_an_engine_that_does_not_count_its_requests_is_not_said_to_be_drained(tmp_path):
    class Silent(ScriptedDriver):
        request_metrics = ("scripted:requests", "no_such_metric")

    async with parts(tmp_path, driver=Silent()) as made:
        made.orders.start(spec(port=free_port()))
        await made.until(ShardState.READY)
        made.orders.drain("demo-1.0")
        await asyncio.sleep(3.5)
        assert not any(report.is_drained for report in made.reports)
