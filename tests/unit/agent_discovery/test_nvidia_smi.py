"""Cards read from the output of nvidia-smi, recorded and made up."""

import os
import select
from pathlib import Path

import pytest

from llmgw.agent.discovery import nvidia_smi
from llmgw.errors import DiscoveryFailed

RECORDED = Path(__file__).parents[2] / "data" / "nvidia_smi"


def _recorded(name):
    return nvidia_smi.parse((RECORDED / f"{name}.csv").read_text())


def test_a_row_is_read_into_every_field():
    card = _recorded("hgx-h100-8")[0]
    assert card.index == 0
    assert card.uuid == "GPU-4c9b3d6e-1f0a-6a0e-6d57-0d8a4a7c1b10"
    assert (card.name, card.gpu_class) == ("NVIDIA H100 80GB HBM3", "h100-80g")
    assert (card.memory_total_mib, card.memory_used_mib) == (81559, 4)
    assert card.compute_capability == "9.0"
    assert card.pci_bus_id == "00000000:1B:00.0"
    assert card.driver_version == "550.90.07"
    assert (card.temperature_c, card.ecc_errors, card.utilization_percent) == (31, 0, 0)
    assert card.problems == ()
    assert card.numa_node is None


def test_uncorrected_errors_put_a_card_out_of_use():
    assert [card.problems for card in _recorded("hgx-h100-8")] == [
        (),
        (),
        ("3 uncorrected ECC errors",),
        (),
    ]


def test_utilisation_is_the_eleventh_column():
    assert _recorded("hgx-h100-8")[1].utilization_percent == 87


def test_the_shorter_row_of_an_old_driver_is_not_shifted():
    cards = _recorded("old-driver-10-columns")
    assert [card.gpu_class for card in cards] == ["v100-16g"] * 2
    assert [card.ecc_errors for card in cards] == [0, 0]
    assert [card.utilization_percent for card in cards] == [None, None]


def test_what_a_card_does_not_support_is_unknown_and_no_problem():
    (card,) = _recorded("laptop-not-supported")
    assert (card.memory_total_mib, card.memory_used_mib) == (8188, 9)
    assert card.ecc_errors is None
    assert card.utilization_percent is None
    assert card.problems == ()


def test_lines_that_are_no_cards_are_passed_over():
    cards = _recorded("with-noise")
    assert [card.index for card in cards] == [0, 1]
    assert cards[1].memory_total_mib is None
    assert cards[1].temperature_c is None


@pytest.mark.parametrize("text", ["", "\n", "No devices were found\n", "x, GPU-1\n"])
def test_no_cards_is_an_empty_list(text):
    assert nvidia_smi.parse(text) == ()


def test_what_is_no_csv_fails_as_a_whole():
    with pytest.raises(DiscoveryFailed):
        nvidia_smi.parse('0, "GPU-1" x, broken\n')


def _program(folder, body):
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_the_program_is_asked_for_the_columns_in_their_order(tmp_path):
    seen = tmp_path / "seen"
    program = _program(tmp_path, f'echo "$@" > {seen}; cat {RECORDED}/hgx-h100-8.csv')
    assert len(nvidia_smi.read(program)) == 4
    query = ",".join(nvidia_smi.COLUMNS)
    assert seen.read_text().split() == [f"--query-gpu={query}", "--format=csv,noheader,nounits"]


def test_a_failing_program_is_named_with_what_it_said(tmp_path):
    program = _program(tmp_path, "echo 'NVIDIA-SMI has failed: driver not loaded' >&2; exit 9")
    with pytest.raises(DiscoveryFailed, match=r"ended with 9 and said: NVIDIA-SMI has failed"):
        nvidia_smi.read(program)


def test_a_missing_program_is_named(tmp_path):
    with pytest.raises(DiscoveryFailed, match="nothing-here cannot be run"):
        nvidia_smi.read(str(tmp_path / "nothing-here"))


def test_a_program_that_prints_without_end_is_ended(tmp_path):
    with pytest.raises(DiscoveryFailed, match="printed more than 4 MiB"):
        nvidia_smi.read(_program(tmp_path, "exec yes nonsense"))


def test_a_program_that_leaves_a_child_is_not_waited_for(tmp_path):
    row = "0, GPU-0, NVIDIA L40S, 46068, 0, 8.9, 00000000:01:00.0, 550.54, 30, 0, 5"
    pids = tmp_path / "pid"
    cards = nvidia_smi.read(_program(tmp_path, f"sleep 61 &\necho $! > {pids}\necho '{row}'"))
    assert [card.name for card in cards] == ["NVIDIA L40S"]
    assert _ends(int(pids.read_text()))


def _ends(pid):
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ready, _, _ = select.select([descriptor], [], [], 5)
    os.close(descriptor)
    return bool(ready)


def test_the_configured_program_wins_over_the_search_path(tmp_path):
    found = _program(tmp_path, "exit 0")
    assert nvidia_smi.find("/opt/nvidia-smi", search_path=str(tmp_path)) == "/opt/nvidia-smi"
    assert nvidia_smi.find("", search_path=str(tmp_path)) == found
    assert nvidia_smi.find("", search_path=str(tmp_path / "empty")) is None


def test_a_column_that_this_version_does_not_know_is_left_out(tmp_path):
    """A real one names one unknown column, prints nothing else, and ends with 2."""
    body = """case "$1" in
  *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2;;
  *power.limit*) echo 'Field "power.limit" is not a valid field to query.'; exit 2;;
esac
echo "0, GPU-0, Tesla V100-PCIE-16GB, 16160, 0, 3B:00.0, 470.182.03, 34, 0, 7, [N/A], 25.67"
"""
    (card,) = nvidia_smi.read(_program(tmp_path, body))
    assert (card.gpu_class, card.compute_capability) == ("v100-16g", "")
    assert card.pci_bus_id == "3B:00.0"
    assert (card.driver_version, card.temperature_c, card.ecc_errors) == ("470.182.03", 34, 0)
    assert (card.utilization_percent, card.power_watts, card.power_limit_watts) == (7, 26, None)


def test_a_program_that_refuses_what_nobody_can_do_without_has_failed(tmp_path):
    program = _program(tmp_path, "echo 'Field \"uuid\" is not a valid field to query.'; exit 2")
    with pytest.raises(DiscoveryFailed, match=r"ended with 2 and said: Field \"uuid\""):
        nvidia_smi.read(program)


def test_power_and_mig_are_read_where_they_are_told():
    row = "0, GPU-0, NVIDIA A100-SXM4-40GB, 40960, 0, 8.0, 00000000:07:00.0, 535.54, 30, 0, [N/A]"
    (card,) = nvidia_smi.parse(f"{row}, Enabled, 51.90, 400.00\n")
    assert (card.power_watts, card.power_limit_watts) == (52, 400)
    assert card.problems == ("MIG is on: it is cut into parts; engines use whole cards only",)
    assert card.nvlink_peers is None
    (card,) = nvidia_smi.parse(f"{row}, Disabled, [N/A], [Unknown Error]\n")
    assert (card.power_watts, card.power_limit_watts, card.problems) == (None, None, ())
