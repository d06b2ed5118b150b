"""An agent is killed before and after every deed of a shard's life, and the next one comes.

Whatever the moment, nothing is orphaned, the port is free once the shard has ended, and an engine
that served goes on.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass

import pytest

from llmgw.domain.replicas import ShardState
from tests.fakes import agents
from tests.fakes.agents import HOST, is_alive, parts, read_pids, spec
from tests.fakes.engines import free_port
from tests.fakes.waiting import eventually

NOT_STARTED = "the agent ended while it was starting the engine"


@dataclass(frozen=True)
class Case:
    """When the first agent dies, and what the next one reports first and last."""

    moment: str
    then: tuple[str, ...]
    error: str = ""
    adopts: bool = False
    engine: tuple[str, ...] = ()
    """Flags of the engine."""
    agent: tuple[str, ...] = ()
    """Flags of the first agent."""
    timeout_s: float = 20.0


STOPS = ("--stop-at=ready",)
DRAINS = ("--drain-at=ready",)
SERVES = ("starting", "loading", "ready")
CASES = {
    "ordered": Case("save:1", then=()),
    "written-down": Case("spawn:1", then=("failed",), error=NOT_STARTED),
    "started-and-not-written": Case("save:2", then=("failed",), error=NOT_STARTED),
    "started-and-not-launched": Case("save:3", then=("failed",), error=NOT_STARTED),
    "starting": Case("starting", then=SERVES, adopts=True),
    "loading": Case("loading", then=SERVES, adopts=True),
    "serves-and-not-written": Case("save:4", then=SERVES, adopts=True),
    "serving": Case("ready", then=SERVES, adopts=True),
    "drain-ordered": Case("save:5", agent=DRAINS, then=SERVES, adopts=True),
    "draining": Case("draining", agent=DRAINS, then=("starting", "draining"), adopts=True),
    "stop-ordered": Case("save:5", agent=STOPS, then=SERVES, adopts=True),
    "stop-written": Case(
        "signal:1", agent=STOPS, then=("starting", "draining", "stopped"), adopts=True
    ),
    "stop-half-done": Case(
        "signal:2",
        agent=(*STOPS, "--stop-steps", "0.2", "5"),
        engine=("--terms-to-end", "2"),
        then=("starting", "draining", "stopped"),
        adopts=True,
    ),
    "stopped-and-not-forgotten": Case("forget:1", agent=STOPS, then=("stopped",)),
    "stopped": Case("stopped", agent=STOPS, then=()),
    "crashed-and-not-told": Case(
        "forget:1", engine=("--exit", "3"), then=("failed",), error="exit code is unknown"
    ),
    "crashed": Case("failed", engine=("--exit", "3"), then=()),
    "given-up-and-not-ended": Case(
        "signal:1",
        engine=("--health", "503"),
        timeout_s=0.5,
        then=("starting", "failed"),
        error="not ready within 0.5 s: health",
        adopts=True,
    ),
}


def die_at(case, tmp_path, wanted):
    """Let an agent of another process begin, and die at that moment."""
    is_deed = ":" in case.moment
    when = f"--die-before={case.moment}" if is_deed else f"--die-at={case.moment}"
    words = [sys.executable, "-m", "tests.fakes.agents", f"--work-dir={tmp_path}", when]
    ended = subprocess.run(
        [*words, *case.agent],
        input=agents.to_json(wanted).encode(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=30,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
    return True


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_next_agent_adopts_or_clears_up_whenever_one_is_killed(tmp_path, case):
    pids, port = tmp_path / "pids", free_port()
    flags = ("--pid-file", str(pids), "--children", "1", *case.engine)
    wanted = spec(*flags, port=port, timeout_s=case.timeout_s)
    die_at(case, tmp_path, wanted)
    await started_if_any(case, pids)
    async with parts(tmp_path) as made:
        await made.orders.recover()
        await eventually(lambda: tuple(made.states()) == case.then)
        last = made.reports[-1] if made.reports else None
        assert case.error in (last.error if last else "")
        if case.adopts and case.then[-1] not in {"stopped", "failed"}:
            assert made.pid() == (await read_pids(pids))[0]
            made.orders.stop("demo-1.0")
            await made.until(ShardState.STOPPED)
        assert made.orders.running() == ()
        assert list(made.work_dir.glob("shard-*")) == []
    assert [pid for pid in known(pids) if is_alive(pid)] == []
    assert is_free(port)


async def started_if_any(case, pids):
    """An engine that was started has time to say its pids, unless none was."""
    if case.moment not in {"save:1", "spawn:1"}:
        await eventually(pids.exists)


def known(pids):
    return [int(word) for word in pids.read_text().split()] if pids.exists() else []
