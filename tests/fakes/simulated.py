"""A real control plane and a simulated fleet on one loop, over real streams."""

from __future__ import annotations

from contextlib import asynccontextmanager

from llmgw.config import loading
from llmgw.serve.control_plane import ControlPlane
from llmgw.simulator import machines
from llmgw.simulator.behaviour import Behaviour
from llmgw.simulator.mishaps import Rates
from llmgw.simulator.sim_fleet import FleetPlan, SimFleet
from llmgw.simulator.sim_shards import Habits

QUICK = Behaviour(ttft_ms=1, tpot_ms=1)


def model(name, *, count, engine="vllm", **profile):
    return {
        "name": name,
        "source": f"demo/{name}",
        "scaling": {"min": count, "max": count},
        "profiles": [{"name": "p", "engine": engine, **profile}],
    }


@asynccontextmanager
async def control_plane(
    folder, *models, port=0, expect=(), agent_tls="insecure", store=None, **control
):
    """A control plane in this process; ``expect`` are the nodes that end its settling."""
    quick = {"interval": 0.5, "base_backoff": 0.2, "expect_nodes": list(expect), **control}
    settings = loading.load_server(
        None,
        environ={},
        overrides={
            "agent_listen": f"127.0.0.1:{port}",
            "agent_tls": agent_tls,
            "state_dir": str(folder),
            "run_dir": str(folder),
            "models": list(models),
            "control": quick,
        },
    )
    control = ControlPlane(settings, last_routes=None, store=store)
    control.port = await control.start()
    try:
        yield control
    finally:
        await control.close()


class Told:
    """A fleet and what it said of its mishaps."""

    def __init__(self, fleet, events):
        self.fleet = fleet
        self.events = events

    def __getattr__(self, name):
        return getattr(self.fleet, name)


@asynccontextmanager
async def fleet(control, *, count, hardware=(), habits=None, rates=None, **plan):
    """Simulated nodes that dial this control plane, and beat often."""
    quick = {"load_s": 0.05, "behaviour": QUICK, **(habits or {})}
    events = []
    made = SimFleet(
        FleetPlan(
            count=count,
            servers=(f"127.0.0.1:{control.port}",),
            machines=machines.load(hardware),
            habits=Habits(**quick),
            rates=rates or Rates(),
            **{"heartbeat_s": 0.2, **plan},
        ),
        on_event=events.append,
    )
    async with made:
        yield Told(made, events)
