"""``llmgw simulate agents``: many light agents against a real control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click

from llmgw.cli import screens, simulate_options, simulate_showing
from llmgw.cli.failures import ExitCode
from llmgw.cli.params import DURATION, Duration
from llmgw.cli.simulate_progress import FleetProgress
from llmgw.kit import logs, openfiles
from llmgw.serve import loops
from llmgw.serve.signals import StopAsked
from llmgw.simulator import machines, resident
from llmgw.simulator.mishaps import Rates
from llmgw.simulator.sim_fleet import FleetPlan, SimFleet
from llmgw.simulator.sim_shards import Habits

_LOOK_S = 0.25
_FILES_EACH = 4
"""The stream of a node, and the sockets of an engine on it."""
_FILES_BESIDE = 256
_A_SECOND = 100
"""So many nodes dial in a second unless --ramp says otherwise."""
_SHORTEST_BEAT_S = 0.1
"""The same as of `heartbeat_interval` of an agent."""


@click.command()
@click.option("--count", type=click.IntRange(1, 10_000), default=10, show_default=True)
@click.option(
    "--server",
    "servers",
    multiple=True,
    default=("127.0.0.1:7443",),
    show_default=True,
    metavar="HOST:PORT",
    help="Agent port of the control plane; repeat it for a second one.",
)
@simulate_options.hardware
@simulate_options.seeded
@click.option("--prefix", default="sim", show_default=True, help="How the nodes' names begin.")
@click.option(
    "--heartbeat",
    "heartbeat_s",
    type=Duration(at_least_s=_SHORTEST_BEAT_S),
    default="5s",
    show_default=True,
)
@click.option(
    "--ramp",
    "ramp_s",
    type=DURATION,
    help=f"Over how long the first dials are spread.  [default: {_A_SECOND} nodes a second]",
)
@click.option("--for", "for_s", type=DURATION, help="End after this.  [default: at Ctrl-C]")
@click.option(
    "--ca",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of the site's authority, which signs a certificate for each node.",
)
@simulate_options.habits
@simulate_options.rates
@click.option("--json", "is_json", is_flag=True, help="At the end one JSON document.")
@click.option("--verbose", is_flag=True, help="The agents' own log lines too.")
@click.pass_context
def agents(
    ctx: click.Context,
    /,
    *,
    count: int,
    servers: Sequence[str],
    hardware: Sequence[str],
    seed: int | None,
    prefix: str,
    heartbeat_s: float,
    ramp_s: float | None,
    for_s: float | None,
    ca: Path | None,
    habits: Habits,
    rates: Rates,
    is_json: bool,
    verbose: bool,
) -> None:
    """Run many light agents in this process, against a real control plane.

    Each node speaks over a stream of its own, tells hardware that is not there, and obeys: what it
    is told to start becomes ready after a while and answers like the sim engine, at a loopback
    address of its own. Ctrl-C ends all of them; to the control plane they are lost then.

    \b
    llmgw simulate agents --count 50
    llmgw simulate agents --count 200 --hardware h100-sxm --lose-every 30s --for 10m

    Ends with 7 when --for is over and a node has never got in.
    """  # noqa: D301 - click reads \b
    logs.setup(level="info" if verbose else "error")
    openfiles.need(_FILES_BESIDE + count * _FILES_EACH)
    plan = FleetPlan(
        count=count,
        servers=servers,
        machines=machines.load(hardware),
        prefix=prefix,
        seed=simulate_options.drawn(seed),
        heartbeat_s=heartbeat_s,
        ramp_s=count / _A_SECOND if ramp_s is None else ramp_s,
        ca=ca,
        habits=habits,
        rates=rates,
    )
    outcome = loops.run(_simulated(plan, for_s=for_s))
    _show(outcome, plan=plan, is_json=is_json)
    if for_s is not None and outcome.census.ever_registered < count:
        ctx.exit(ExitCode.CHECK_SAID_NO)


def _show(outcome: simulate_showing.Outcome, *, plan: FleetPlan, is_json: bool) -> None:
    screen = screens.standard()
    if is_json:
        screen.document(simulate_showing.document(outcome, plan=plan))
    else:
        simulate_showing.summary(screen, outcome, plan=plan)


async def _simulated(plan: FleetPlan, *, for_s: float | None) -> simulate_showing.Outcome:
    stop = StopAsked()
    stop.listen()
    before = resident.look()
    complete_s: float | None = None
    with FleetProgress(count=plan.count) as progress:
        fleet = SimFleet(plan, on_event=progress.event)
        async with AsyncExitStack() as parts:
            await stop.unless_asked(_enter(parts, fleet))
            while not await _is_over(stop, fleet, for_s=for_s):
                now = fleet.census()
                if complete_s is None and now.registered == plan.count:
                    complete_s = now.after_s
                progress.show(now)
            return simulate_showing.Outcome(
                census=fleet.census(),
                complete_s=complete_s,
                mishaps=fleet.mishaps,
                used=resident.look().since(before),
            )


async def _enter(parts: AsyncExitStack, fleet: SimFleet) -> None:
    await parts.enter_async_context(fleet)


async def _is_over(stop: StopAsked, fleet: SimFleet, *, for_s: float | None) -> bool:
    """Wait a moment; whether it was the last one."""
    left_s = _LOOK_S if for_s is None else min(_LOOK_S, for_s - fleet.age_s)
    if left_s <= 0:
        return True
    return await stop.unless_asked(asyncio.sleep(left_s)) is False
