"""``llmgw agent inventory``: a machine shown before it joins anything."""

import json
from pathlib import Path

import pytest

from llmgw.cli import failures, inventory_cmd

RECORDED = Path(__file__).parents[2] / "data" / "nvidia_smi"


@pytest.fixture
def run(tmp_path, capsys):
    """Run the command with settings written for the test; its exit code and what it wrote."""

    def go(*args, smi="cat {recorded}/hgx-h100-8.csv", settings=""):
        program = tmp_path / "nvidia-smi"
        program.write_text("#!/bin/sh\n" + smi.format(recorded=RECORDED) + "\n")
        program.chmod(0o755)
        weights = tmp_path / "weights"
        weights.mkdir(exist_ok=True)
        (weights / "tiny.gguf").write_bytes(b"x" * 2048)
        config = tmp_path / "agent.yaml"
        config.write_text(
            f"node_id: node01\nweights_dir: {weights}\n"
            f"discovery: {{nvidia_smi: {program}, prefer_nvml: false, ib_root: {tmp_path}/ib}}\n"
            f"{settings}\n"
        )
        code = failures.run(inventory_cmd.inventory, args=["--config", str(config), *args])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return go


def test_a_person_sees_cards_with_their_class_and_what_is_wrong_with_them(run):
    code, out, _ = run()
    assert code == 0
    lines = out.splitlines()
    header = next(line.split() for line in lines if line.startswith("GPU "))
    assert "CLASS" in header
    rows = [line for line in lines if "h100-80g" in line]
    assert len(rows) == 4
    assert [row.split()[-1] for row in rows] == ["ok", "use", "use", "ok"]
    assert "  40000 MiB held by another process" in lines
    assert "  3 uncorrected ECC errors" in lines
    assert any("tiny.gguf" in line and "2.0 KiB" in line for line in lines)


def test_a_program_gets_the_same_with_unknown_figures_left_out(run):
    code, out, _ = run("--json")
    document = json.loads(out)
    assert code == 0
    assert document["source"] == "nvidia-smi"
    assert document["memory_total_mb"] > 0
    assert [gpu["class"] for gpu in document["gpus"]] == ["h100-80g"] * 4
    assert document["gpus"][1]["utilization_percent"] == 87
    assert document["gpus"][2]["health"] == {
        "ecc_errors": 3,
        "temperature_c": 30,
        "problems": ["3 uncorrected ECC errors"],
    }
    assert "numa_node" not in document["gpus"][0]
    assert "mgmt_addr" not in document
    assert document["engines"]["sim"] == "unknown"
    assert document["failures"] == []


def test_the_address_is_shown_once_a_server_is_named(run):
    _, out, _ = run("--json", settings="server: http://127.0.0.1:7443")
    document = json.loads(out)
    assert (document["mgmt_addr"], document["mgmt_interface"]) == ("127.0.0.1", "lo")


def test_what_cannot_be_read_is_said_and_the_rest_is_shown(run):
    code, out, _ = run(smi="echo 'driver not loaded' >&2; exit 9")
    assert code == 1
    assert "could not be read: " in out
    assert "driver not loaded" in out
    assert "tiny.gguf" in out


def test_a_fabric_is_shown_with_what_is_wrong_with_it(run):
    _, out, _ = run(settings="fabrics: [{name: ib, hcas: [mlx5_0]}]")
    assert "adapter mlx5_0 was not found; found: none" in out


def test_mistakes_in_the_settings_are_a_usage_error(run):
    code, _, err = run(settings="nonsense: 1")
    assert code == 2
    assert "nonsense" in err
