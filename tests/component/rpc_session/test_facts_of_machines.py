"""What becomes of a machine after it registered reaches the control plane: cards and fabrics."""

from __future__ import annotations

import pytest

from llmgw.agent.discovery.address import Identity
from llmgw.agent.discovery.facts import Discovery
from llmgw.control.inventory import fleet
from tests.fakes import described_machines
from tests.fakes.rpc_stage import Agent, ControlPlane, dialling, running
from tests.fakes.waiting import eventually

WHO = Identity("node01", "node01", "10.0.0.5", "eth0")


@pytest.fixture
def machine(tmp_path):
    return described_machines.build("a10-ib-init", tmp_path)


@pytest.fixture
async def node(machine, clock):
    """What the control plane knows of the machine at any moment."""
    discovery = Discovery(
        settings=machine.settings, identity=WHO, scanner=machine.scanner(), clock=clock
    )
    async with (
        running(ControlPlane()) as plane,
        dialling(Agent(plane.address, facts=discovery)),
    ):
        await plane.registered()
        yield lambda: _known(plane)


def _known(plane):
    ((_, facts, _),) = plane.fleet.of("register")
    known = fleet.registered(None, facts, now=0.0)
    for _, _, beat in plane.fleet.of("heartbeat"):
        known = fleet.heard(known, beat, now=0.0)
    return known.facts


async def test_a_card_that_breaks_under_way_is_out_of_use_at_the_control_plane(node, machine):
    assert [gpu.problems for gpu in node().gpus] == [(), ()]
    log = machine.root / "dev" / "kmsg"
    log.parent.mkdir()
    log.write_text("4,1,1000,-;NVRM: Xid (PCI:0000:ca:00): 79, GPU has fallen off the bus.\n")
    await eventually(lambda: node().gpus[1].problems == ("Xid 79: it has fallen off the bus",))
    assert node().gpus[0].problems == ()
    with log.open("a") as more:
        more.write("4,2,2000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03\n")
    await eventually(lambda: node().gpus[1].problems == ())


async def test_a_fabric_is_offered_once_a_port_of_it_carries_traffic(node, machine, clock):
    assert node().fabrics == ()
    assert "no subnet manager answers" in node().fabric_problems[0]
    port = machine.root / "sys/class/infiniband/mlx5_0/ports/1"
    (port / "state").write_text("4: ACTIVE\n")
    clock.advance(60.0)
    await eventually(lambda: node().fabrics)
    (fabric,) = node().fabrics
    assert (fabric.name, fabric.hcas, fabric.rate_gbps) == ("ib", ("mlx5_0",), 200)
    assert fabric.link_layer == "InfiniBand"
    assert len(node().fabric_problems) == 2
