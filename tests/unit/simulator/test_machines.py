"""Descriptions of machines: what comes along, what a person writes, and every mistake in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmgw.errors import Invalid, SettingsInvalid
from llmgw.simulator import machines

DESCRIBED = sorted((Path(__file__).parents[2] / "data" / "nodes").glob("*.json"))
CARD = {"index": 0, "uuid": "x", "name": "NVIDIA L40S", "memory_total_mib": 46068}


def described(tmp_path, facts, *, name="own", **others):
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps({"facts": facts, **others}))
    return str(file)


def problems(*wanted):
    with pytest.raises(SettingsInvalid) as refused:
        machines.load(wanted)
    return {str(problem) for problem in refused.value.problems}


def test_every_machine_that_comes_along_can_be_simulated():
    made = {machine.name: machine.facts for machine in machines.load(())}
    assert set(made) == set(machines.shipped())
    classes = {name: {gpu.gpu_class for gpu in facts.gpus} for name, facts in made.items()}
    assert classes == {
        "a100-pcie": {"a100-80g"},
        "cpu": set(),
        "h100-sxm": {"h100-80g"},
        "l40s": {"l40s-45g"},
        "rtx-4090": {"4090-24g"},
    }
    h100 = made["h100-sxm"]
    assert h100.gpus[0].nvlink_peers == (1, 2, 3, 4, 5, 6, 7)
    assert len(h100.fabrics[0].hcas) == 8
    assert all(facts.memory_total_mb and facts.engines_probed for facts in made.values())


@pytest.mark.parametrize("file", DESCRIBED, ids=lambda file: file.stem)
def test_a_described_machine_can_be_simulated_as_it_is(file):
    (machine,) = machines.load([str(file)])
    golden = json.loads(file.read_text())["facts"]
    assert len(machine.facts.gpus) == len(golden.get("gpus", ()))
    node = machines.node(machine, number=1, prefix="sim", serves=True)
    assert [gpu.name for gpu in node.gpus] == [gpu["name"] for gpu in golden.get("gpus", ())]


def test_what_a_description_leaves_out_is_unknown(tmp_path):
    file = described(tmp_path, {"gpus": [CARD]}, about="a bare machine", sources=[])
    (machine,) = machines.load([file])
    assert machine.name == "own"
    assert machine.facts.memory_total_mb is None
    assert machine.facts.gpus[0].memory_used_mib is None
    assert machine.facts.engines_probed is False


def test_nodes_of_one_machine_share_nothing_that_identifies_them():
    (machine,) = machines.load(["l40s"])
    nodes = [machines.node(machine, number=n, prefix="sim", serves=True) for n in (1, 2, 300)]
    assert [node.node_id for node in nodes] == ["sim-0001", "sim-0002", "sim-0300"]
    assert [node.mgmt_addr for node in nodes] == ["127.64.0.2", "127.64.0.3", "127.64.1.45"]
    assert len({gpu.uuid for node in nodes for gpu in node.gpus}) == 12
    assert {node.hostname for node in nodes} == {node.node_id for node in nodes}


@pytest.mark.parametrize(("serves", "said"), [(True, "serving"), (False, "not-serving")])
def test_a_simulated_node_says_so_in_its_labels(serves, said):
    (machine,) = machines.load(["cpu"])
    labels = machines.node(machine, number=1, prefix="sim", serves=serves).labels
    assert labels == {"machine": "cpu", "simulated": said}


def test_a_prefix_that_makes_no_name_is_refused():
    (machine,) = machines.load(["cpu"])
    with pytest.raises(Invalid, match="'_x-0001' is no name for a node"):
        machines.node(machine, number=1, prefix="_x", serves=True)


def test_every_mistake_of_every_description_is_told_at_once(tmp_path):
    mistyped = described(tmp_path, {"gpus": [{**CARD, "nvlinks": [1]}], "memory": 5})
    wrong = described(tmp_path, {"memory_total_mb": "much"}, name="wrong")
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    torn = tmp_path / "torn.json"
    torn.write_text("{")
    deep = tmp_path / "deep.json"
    deep.write_text('{"facts": ' + "[" * 100_000)
    files = [mistyped, wrong, *map(str, (empty, torn, deep, tmp_path / "no.json"))]
    told = problems(*files, "h200")
    assert any(line.startswith(f"{deep}: is not JSON") for line in told)
    assert f"{mistyped}: facts.memory: no fact of a node has this name" in told
    assert f"{mistyped}: facts.gpus[0].nvlinks: no fact of a node has this name" in told
    assert any(line.startswith(f"{wrong}: facts.memory_total_mb: ") for line in told)
    assert any(line.startswith(f"{empty}: has no object 'facts'") for line in told)
    assert any(line.startswith(f"{torn}: is not JSON") for line in told)
    assert any("no.json: cannot be read" in line for line in told)
    assert any(line.startswith("h200: no such machine") for line in told)
    assert len(told) == 8
