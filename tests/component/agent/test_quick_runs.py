"""Programs that are run for one answer leave nothing behind, and take no memory without end."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from llmgw.agent.install.tools import Tools
from llmgw.errors import DeadlinePassed, EngineFailed
from tests.fakes.agents import is_alive

_ENDS_MEANWHILE = """
import sys, threading, time
from pathlib import Path
from llmgw.kit import quick_runs
pids, may_outlive = Path(sys.argv[1]), sys.argv[2] == "yes"
words = ["sh", "-c", f"echo $$ > {pids}.new && mv {pids}.new {pids} && exec sleep 60"]
bounds = {"timeout_s": 60, "most_bytes": 100, "may_outlive": may_outlive}
threading.Thread(target=lambda: quick_runs.run(words, **bounds), daemon=True).start()
while not pids.exists():
    time.sleep(0.01)
"""


@pytest.mark.parametrize("may_outlive", [False, True], ids=["goes-along", "may-outlive"])
def test_a_program_that_hangs_ends_with_the_process_that_asked_it(tmp_path, may_outlive):
    pids = tmp_path / "pids"
    words = (sys.executable, "-c", _ENDS_MEANWHILE, str(pids), "yes" if may_outlive else "no")
    subprocess.run(words, check=True, timeout=60)
    pid = int(pids.read_text())
    try:
        deadline = time.monotonic() + 20
        while is_alive(pid) and not may_outlive and time.monotonic() < deadline:
            time.sleep(0.02)
        assert is_alive(pid) is may_outlive
    finally:
        if is_alive(pid):
            os.kill(pid, 9)


@pytest.fixture
def tools():
    return Tools(environ=os.environ)


def test_an_installer_ends_a_program_that_prints_without_end(tools):
    with pytest.raises(EngineFailed, match="yes printed more than 16 MiB"):
        tools.run(["yes", "x" * 1000], timeout_s=60)


def test_an_installer_is_not_held_up_by_what_a_program_leaves_behind(tools):
    ended = tools.run(["sh", "-c", "sleep 60 & echo done; echo why >&2"], timeout_s=30)
    assert (ended.code, ended.output, ended.last_line) == (0, "done\nwhy\n", "why")


def test_an_installer_tells_of_a_program_that_does_not_end(tools):
    with pytest.raises(DeadlinePassed, match="sleep did not end within"):
        tools.run(["sleep", "60"], timeout_s=0.1)
