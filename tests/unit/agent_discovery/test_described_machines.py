"""Machines that somebody has, rebuilt from what their owners published, and what is found there."""

from __future__ import annotations

import json

import pytest

from llmgw.agent import stocktaking
from llmgw.agent.discovery.address import Identity
from llmgw.agent.discovery.facts import Discovery
from llmgw.agent.stocktaking import Inventory
from llmgw.control.placement import cards
from llmgw.simulator import machines
from tests.fakes import described_machines
from tests.fakes.described_machines import FOLDER, NAMES

WHO = Identity("node01", "node01", "10.0.0.5", "eth0")
OF_THE_MACHINE = ("gpus", "fabrics", "fabric_problems", "warnings", "host", "memory_total_mb")

every_machine = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def machine(name, tmp_path):
    return described_machines.build(name, tmp_path)


@every_machine
async def test_machine_is_discovered_to_its_golden_values(machine, clock):
    discovery = Discovery(
        settings=machine.settings, identity=WHO, scanner=machine.scanner(), clock=clock
    )
    facts, expected = await discovery.facts(), machine.expected
    for part in OF_THE_MACHINE:
        assert getattr(facts, part) == getattr(expected, part), part


@every_machine
async def test_heartbeat_of_a_machine_that_stands_still_repeats_its_registration(machine, clock):
    discovery = Discovery(
        settings=machine.settings, identity=WHO, scanner=machine.scanner(), clock=clock
    )
    facts, beat = await discovery.facts(), await discovery.refresh()
    assert (beat.fabrics, beat.fabric_problems) == (facts.fabrics, facts.fabric_problems)
    assert beat.warnings == facts.warnings
    assert beat.new_problems == ()
    assert (beat.gpus or ()) == facts.gpus


@every_machine
def test_inventory_of_a_machine_shows_what_its_owner_should_know(machine):
    scanner = machine.scanner()
    found = Inventory(
        node_id="node01",
        hostname="node01",
        mgmt_addr=None,
        mgmt_interface=None,
        hardware=scanner.hardware(),
        files=scanner.files(),
        engines=scanner.engines(),
        failures=scanner.hardware().failures,
    )
    document, expected = stocktaking.document(found), machine.found
    assert document["source"] == expected["source"]
    assert document["failures"] == expected["failures"]
    assert sorted({gpu["class"] for gpu in document["gpus"]}) == expected["classes"]
    out_of_use = {
        str(gpu["index"]): gpu["health"]["problems"]
        for gpu in document["gpus"]
        if gpu["health"]["problems"]
    }
    assert out_of_use == expected["out_of_use"]
    active = [
        f"{hca['name']}/{port['num']}"
        for hca in document["hcas"]
        for port in hca["ports"]
        if port["state"] == "ACTIVE"
    ]
    assert active == expected["active_ports"]


@every_machine
def test_machine_says_where_it_comes_from(name):
    document = json.loads((FOLDER / f"{name}.json").read_text())
    assert document["about"].endswith(".")
    for source in document["sources"]:
        assert set(source) == {"title", "where", "used_for"}
        assert source["where"].startswith("https://")


@every_machine
def test_machine_can_be_simulated(name):
    (machine,) = machines.load([str(FOLDER / f"{name}.json")])
    node = machines.node(machine, number=1, prefix="sim", serves=False)
    assert len(node.gpus) == len(machine.facts.gpus)
    assert node.host.arch in {"amd64", "arm64"}


def test_placement_leaves_a_card_without_links_out_of_a_group():
    gpus = machines.load([str(FOLDER / "b200-one-unlinked.json")])[0].facts.gpus
    assert cards.choose(gpus=gpus, free=gpus, count=4) == (0, 1, 3, 4)
    assert cards.choose(gpus=gpus, free=gpus, count=1) == (2,)


def test_placement_keeps_a_group_on_one_bridge():
    gpus = machines.load([str(FOLDER / "h100-pcie-pairs.json")])[0].facts.gpus
    assert cards.choose(gpus=gpus, free=gpus[1:], count=2) == (2, 3)


def test_the_library_has_the_kinds_of_machines_that_matter():
    assert {
        "a10-ib-init",
        "a100-ecc",
        "a100-mig",
        "b200-one-unlinked",
        "dgx-a100-40",
        "gb10",
        "h100-pcie-pairs",
        "h100-quad",
        "hgx-a100-80",
        "hgx-h100",
        "l40-lost",
        "l40s",
        "no-driver",
        "roce",
        "rtx-4070-laptop",
        "rtx-4090-busy",
        "v100s-old-driver",
        "vm-without-avx2",
    } <= set(NAMES)
