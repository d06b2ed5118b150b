"""The engine half of an agent with a driver that starts ``scripted_engine``; also as a process.

As a program it carries out one start from standard input and kills itself where it is told to:
``python -m tests.fakes.agents --work-dir DIR --die-at ready < spec.json``.

``--die-before save:2`` kills it just before its second save of the state file, ``spawn:1`` before
it starts its first process, ``signal:1`` before it signals one, ``forget:1`` before it removes the
file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llmgw.agent.engines.contract import Command, StopPlan, StopStep
from llmgw.agent.engines.registry import Engines
from llmgw.agent.orders import Orders
from llmgw.agent.supervisor import adoption, workdir
from llmgw.agent.supervisor.supervisor import Supervisor
from llmgw.agent.weights.fetch_orders import FetchOrders
from llmgw.agent.weights.fetching import Weights
from llmgw.config.tending import SupervisorSettings, WeightsSettings
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardReport, ShardSpec, ShardState
from llmgw.errors import Invalid
from llmgw.kit import proctable
from llmgw.kit.clock import SystemClock
from tests.fakes.waiting import eventually

HOST = "127.0.0.1"
SCRIPT = Path(__file__).with_name("scripted_engine.py")
WAIT_S = 20.0
_CARDS = tuple(Gpu(index=index, uuid=f"GPU-{index}", name="made up") for index in range(4))


class ScriptedDriver:
    """Fits ``Engine``; a profile's args are the engine's flags.

    ``|`` in the args parts processes, and a process whose first word is ``wait`` has the
    leader-port flag.
    """

    name = "scripted"
    health_path = "/health"
    request_metrics = ("scripted:requests",)
    work_metrics = ("scripted:tokens_total",)

    def __init__(self, *, steps: Sequence[StopStep] = (StopStep(signal.SIGTERM, 5.0),)) -> None:
        self.stop_plan = StopPlan(tuple(steps))

    def validate(self, profile: LaunchProfile, gpus: Sequence[Gpu]) -> None:
        if "--invalid" in profile.args:
            raise Invalid("the profile asks for it")

    def commands(self, spec: ShardSpec) -> tuple[Command, ...]:
        parts = _split(spec.profile.args)
        engine = parts[-1]
        if self.serves_http(spec):
            listen = f"{HOST}:{spec.http_port}"
            engine = [*engine, "--listen", listen, "--model", spec.profile.served_model_name]
        return tuple(_command(i, part) for i, part in enumerate([*parts[:-1], engine]))

    def serves_http(self, spec: ShardSpec) -> bool:
        return spec.rank == 0


def _split(args: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for arg in args:
        if arg == "|":
            parts.append([])
        else:
            parts[-1].append(arg)
    return parts


def _command(order: int, args: list[str]) -> Command:
    waits = args[:1] == ["wait"]
    words = args[1:] if waits else args
    path = sys.executable
    if words[:1] == ["missing"]:
        path, words = "/no/such/program", words[1:]
    return Command(
        name=f"process{order}",
        path=path,
        args=("-S", str(SCRIPT), *words),
        env={"PATH": os.defpath},
        wait_for_leader_port=waits,
    )


def spec(
    *args: str,
    shard_id: str = "demo-1.0",
    port: int = 0,
    source: str = "bare-name",
    timeout_s: float = 20.0,
    **fields: Any,
) -> ShardSpec:
    """One shard of the scripted engine."""
    profile = LaunchProfile(
        name="scripted-cpu",
        engine="scripted",
        model_path=source,
        served_model_name="demo",
        args=args,
    )
    return ShardSpec(
        replica_id="demo-1",
        shard_id=shard_id,
        profile=profile,
        http_port=port,
        startup_timeout_s=timeout_s,
        pool="cpu",
        profile_fp="v1:0123",
        **fields,
    )


class NoCards:
    """A node without cards; fits ``NodeCards``."""

    def gpus(self) -> tuple[Gpu, ...]:
        return ()

    async def gpu_utilization(self) -> dict[int, int]:
        return {}


class Parts:
    """Orders over a real supervisor, and every report that they made."""

    def __init__(
        self,
        folder: Path,
        *,
        driver: Any = None,
        weights: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.reports: list[ShardReport] = []
        self.on_report: Callable[[ShardReport], None] = lambda report: None
        self._changed = asyncio.Event()
        self.cards_busy: dict[int, int] = {}
        self.work_dir = folder / "work"
        wanted = {"health_interval": 0.1, "alive_grace": 0.3, "rendezvous_timeout": 10.0}
        self.supervisor = Supervisor(
            node_id="node01",
            settings=SupervisorSettings(work_dir=str(self.work_dir), **(wanted | settings)),
            clock=SystemClock(),
            on_report=self._reported,
            gpu_utilization=self._gpu_utilization,
        )
        self.weights = Weights(
            folder=str(folder / "weights"),
            clock=SystemClock(),
            settings=WeightsSettings(keep_free=0, **(weights or {})),
            ordered=FetchOrders(self.work_dir / workdir.FETCH_ORDERS),
        )
        self.orders = Orders(
            mgmt_addr=HOST,
            engines=Engines([driver or ScriptedDriver()]),
            weights=self.weights,
            supervisor=self.supervisor,
            gpus=lambda: _CARDS,
        )

    async def _gpu_utilization(self) -> dict[int, int]:
        return self.cards_busy

    def _reported(self, report: ShardReport) -> None:
        self.reports.append(report)
        self.on_report(report)
        self._changed.set()

    def states(self, shard_id: str = "demo-1.0") -> list[str]:
        return [str(one.state) for one in self.reports if one.shard_id == shard_id]

    async def until(self, state: ShardState, *, shard_id: str = "demo-1.0") -> ShardReport:
        """The first report of that state, waiting for it."""
        async with asyncio.timeout(WAIT_S):
            while True:
                for report in self.reports:
                    if report.shard_id == shard_id and report.state is state:
                        return report
                self._changed.clear()
                await self._changed.wait()

    def pid(self, shard_id: str = "demo-1.0") -> int:
        """The engine's pid as the state file has it."""
        path = self.work_dir / f"shard-{shard_id}.json"
        record = adoption.load(path, shard_id=shard_id)
        assert record is not None
        assert record.engine is not None
        return record.engine.pid


@contextlib.asynccontextmanager
async def parts(folder: Path, **wanted: Any):
    """``Parts`` that end their engines when the test is over."""
    made = Parts(folder, **wanted)
    try:
        yield made
    finally:
        await made.orders.close(stop_engines=True)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    found = proctable.entry(pid)
    return found is not None and found.is_running


async def read_pids(path: Path) -> list[int]:
    """The pids that a scripted engine wrote down."""
    await eventually(path.exists)
    return [int(word) for word in path.read_text().split()]  # noqa: ASYNC240 - a test may


_DEEDS = {
    "save": ("os.rename", 1, "shard-"),
    "spawn": ("subprocess.Popen", 0, ""),
    "signal": ("os.killpg", 0, ""),
    "forget": ("os.remove", 0, "shard-"),
}
"""What the interpreter calls each deed, and which of its arguments names a file."""


def _die_before(deed: str, number: int) -> None:
    event, place, beginning = _DEEDS[deed]
    seen = 0

    def hear(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if name != event or not Path(str(arguments[place])).name.startswith(beginning):
            return
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)


async def _run(flags: argparse.Namespace, wanted: ShardSpec) -> None:
    steps = [StopStep(signal.SIGTERM, wait_s) for wait_s in flags.stop_steps]
    made = Parts(flags.work_dir, driver=ScriptedDriver(steps=steps))
    if flags.die_before:
        deed, _, number = flags.die_before.partition(":")
        _die_before(deed, int(number))

    def die(report: ShardReport) -> None:
        if report.state == flags.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if report.state == flags.drain_at:
            asyncio.get_running_loop().call_soon(made.orders.drain, report.shard_id)
        if report.state == flags.stop_at:
            asyncio.get_running_loop().call_soon(made.orders.stop, report.shard_id)

    made.on_report = die
    await made.orders.recover()
    made.orders.start(wanted)
    await asyncio.sleep(WAIT_S)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work-dir", type=Path, required=True)
    parser.add_argument("--die-at", default="")
    parser.add_argument("--die-before", default="")
    parser.add_argument("--stop-steps", type=float, nargs="+", default=[5.0])
    parser.add_argument("--drain-at", default="")
    parser.add_argument("--stop-at", default="")
    flags = parser.parse_args()
    stored = json.load(sys.stdin)
    stored["profile"]["args"] = tuple(stored["profile"]["args"])
    wanted = ShardSpec(**{**stored, "profile": LaunchProfile(**stored["profile"])})
    asyncio.run(_run(flags, wanted))


def to_json(wanted: ShardSpec) -> str:
    """What ``main`` reads."""
    return json.dumps(asdict(wanted))


if __name__ == "__main__":
    main()
