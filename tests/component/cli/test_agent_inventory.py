"""``llmgw agent inventory``: a machine shown before it joins anything."""

import json
import os
from pathlib import Path

import pytest

from llmgw.agent.supervisor import adoption
from llmgw.agent.supervisor.adoption import Record
from llmgw.agent.supervisor.kinship import Identity
from llmgw.cli import failures, inventory_cmd
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from llmgw.kit import proctable

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
            f"supervisor: {{work_dir: {tmp_path}/agent}}\n"
            f"discovery: {{nvidia_smi: {program}, prefer_nvml: false, ib_root: {tmp_path}/ib,"
            f" kernel_log: {tmp_path}/kmsg}}\n"
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


def test_an_address_that_the_machine_does_not_have_is_warned_of(run):
    code, out, _ = run(settings="mgmt_addr: 192.0.2.7")
    assert code == 0
    assert "engines cannot listen on the management address 192.0.2.7" in out


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


def test_a_card_of_our_own_engine_is_not_somebody_elses(run, tmp_path):
    (tmp_path / "agent").mkdir()
    engine = Identity("engine", os.getpid(), proctable.entry(os.getpid()).start_ticks)
    profile = LaunchProfile(name="p", engine="sim", model_path="/m", served_model_name="m")
    record = Record(
        spec=ShardSpec(
            replica_id="r", shard_id="r.0", profile=profile, http_port=20001, gpu_indices=(1,)
        ),
        boot_id=proctable.boot_id(),
        started_at=0.0,
        processes=(engine,),
    )
    adoption.save(tmp_path / "agent" / "shard-r.0.json", record)
    code, out, _ = run()
    assert code == 0
    assert "held by another process" not in out
    rows = [line for line in out.splitlines() if "h100-80g" in line]
    assert rows[1].endswith("in use by us")
    document = json.loads(run("--json")[1])
    assert [gpu["is_held"] for gpu in document["gpus"]] == [False, True, False, False]


def _port(tmp_path, name, **files):
    folder = tmp_path / "ib" / name / "ports" / "1"
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / file).write_text(text)


def test_adapters_are_shown_with_their_kind_and_why_a_fabric_lacks_one(run, tmp_path):
    _port(tmp_path, "mlx5_0", state="4: ACTIVE", phys_state="5: LinkUp", link_layer="Ethernet")
    _port(tmp_path, "mlx5_1", state="2: INIT", phys_state="5: LinkUp", link_layer="InfiniBand")
    _, out, _ = run(settings="fabrics: [{name: f, hcas: [mlx5_0, mlx5_1], rate_gbps: 100}]")
    lines = [line.split() for line in out.splitlines()]
    assert ["mlx5_0", "1", "ACTIVE/LinkUp", "-", "RoCE", "-", "none"] in lines
    assert ["mlx5_1", "1", "INIT/LinkUp", "-", "InfiniBand", "-", "none"] in lines
    assert ["f", "mlx5_0", "100", "Gb/s", "RoCE"] in lines
    assert "(linked, but no subnet manager answers)" in out


def test_what_the_kernel_says_of_a_card_keeps_it_out_of_use(run, tmp_path):
    message = "NVRM: Xid (PCI:0000:1B:00): 79, GPU has fallen off the bus."
    (tmp_path / "kmsg").write_text(f"4,1,1000,-;{message}\n")
    _, out, _ = run()
    assert "  Xid 79: it has fallen off the bus" in out.splitlines()


def test_odd_things_of_a_machine_are_shown_and_fail_nothing(run, tmp_path):
    _port(tmp_path, "mlx5_0", state="4: ACTIVE", link_layer="InfiniBand")
    code, out, _ = run()
    warning = "no fabric has the InfiniBand adapters that work: mlx5_0"
    assert code == 0
    assert warning in out.splitlines()
    assert warning in json.loads(run("--json")[1])["warnings"]
