"""Faults of cards that the driver has written to the kernel's log."""

import os
import socket

import pytest

from llmgw.agent.discovery import xids
from llmgw.agent.discovery.fault_log import FaultLog
from llmgw.agent.discovery.kernel_log import KernelLog

LOST = "NVRM: Xid (PCI:0000:44:00): 79, pid=1234, name=python3, GPU has fallen off the bus."
LOADED = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build"
GONE = (
    "NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: (PCI ID: 10de:26b5) installed in this system has\n"
    "NVRM: fallen off the bus and is not responding to commands."
)
ACTION = "NVRM: Xid (PCI:{}): 154, GPU recovery action changed from {} to {}"
RESET_DUE = ACTION.format("0001:44:00", "0x0 (None)", "0x1 (GPU Reset Required)")
MENDED = ACTION.format("0000:44:00", "0x2 (Node Reboot Required)", "0x0 (None)")
FAULT = {"44:00.0": "Xid 79: it has fallen off the bus"}


def _record(number, message):
    return f"4,{number},{number}000,-;{message}\n"


@pytest.mark.parametrize(
    ("messages", "faults"),
    [
        pytest.param((), {}, id="nothing"),
        pytest.param((LOST,), FAULT, id="fallen off the bus"),
        pytest.param((LOST, LOADED), {}, id="the driver was loaded anew"),
        pytest.param((LOADED, LOST), FAULT, id="since the driver was loaded"),
        pytest.param(
            ("NVRM: Xid (PCI:0000:1B:00): 31, pid=9, name=x, Ch 00000008, MMU Fault",),
            {},
            id="a program's fault",
        ),
        pytest.param((GONE,), {"b3:00.0": "it has fallen off the bus"}, id="without an Xid"),
        pytest.param(
            (RESET_DUE,), {"1:44:00.0": "Xid 154: GPU Reset Required"}, id="a reset is due"
        ),
        pytest.param((LOST, MENDED), {}, id="nothing has to be done any more"),
    ],
)
def test_faults_are_those_that_only_a_repair_ends(messages, faults):
    assert xids.faults({}, messages) == faults


def test_what_was_known_stays_known():
    assert xids.faults(FAULT, ["usb 1-1: new device"]) == FAULT


def test_each_message_is_handed_out_once(tmp_path):
    path = tmp_path / "kmsg"
    path.write_text(_record(1, "one") + " SUBSYSTEM=pci\n" + _record(2, "two\\x0alines"))
    log = KernelLog(path)
    assert log.news() == ("one", "two\nlines")
    assert log.news() == ()
    with path.open("a") as more:
        more.write(_record(3, "three"))
    assert log.news() == ("three",)
    log.close()


def test_a_log_that_has_nothing_more_keeps_nobody_waiting(tmp_path):
    """Like the real device, which says so by an error once it was read to its end."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    with KernelLogWriter(path) as write:
        log = KernelLog(path)
        write(_record(1, LOST))
        assert log.news() == (LOST,)
        assert log.news() == ()
        log.close()


class KernelLogWriter:
    """Holds the other end of a pipe open."""

    def __init__(self, path):
        self._descriptor = os.open(path, os.O_RDWR)

    def __enter__(self):
        return lambda text: os.write(self._descriptor, text.encode())

    def __exit__(self, *ended):
        os.close(self._descriptor)


def test_a_machine_without_a_kernel_log_has_no_faults(tmp_path):
    faults = FaultLog(tmp_path / "none").faults()
    assert (faults.by_bus_id, faults.warnings) == ({}, ())
    assert FaultLog(tmp_path).faults().warnings == ()


def test_a_log_that_cannot_be_read_is_said(tmp_path):
    path = tmp_path / "kmsg"
    with socket.socket(socket.AF_UNIX) as refuses:
        refuses.bind(str(path))  # opening it fails for everybody, root too
        (warning,) = FaultLog(path).faults().warnings
    assert warning.startswith(f"{path} cannot be read (No such device or address): Xid errors")


def test_faults_stay_over_looks(tmp_path):
    path = tmp_path / "kmsg"
    path.write_text(_record(1, LOST))
    log = FaultLog(path)
    assert [log.faults().by_bus_id for _ in range(2)] == [FAULT, FAULT]
    log.close()
