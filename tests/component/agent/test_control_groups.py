"""Where the unit may divide its control group, no process of an engine gets away."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest

_AGENT = """
import asyncio, json, os, sys
from pathlib import Path
from llmgw.agent.engines.contract import Command
from llmgw.agent.supervisor import cgroups, processes
from llmgw.kit import proctable

folder, group = Path(sys.argv[1]), Path(sys.argv[2])
(group / "cgroup.procs").write_text(str(os.getpid()))
engine = '''
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "20"], {})
    os._exit(0)
os.wait()
open(sys.argv[1], "w").close()
time.sleep(60)
'''

async def run():
    mark, ready = str(folder / "shard-demo-1.0.json"), folder / "ready"
    command = Command("engine", sys.executable, ("-c", engine, str(ready)))
    made = processes.spawn(command, folder=folder, output=folder / "log", mark=mark)
    while not ready.exists():
        await asyncio.sleep(0.02)
    held = cgroups.pids(cgroups.own(), mark=mark)
    os.kill(made.identity.pid, 9)
    await made.wait(timeout_s=10)
    if sys.argv[3] == "ends":
        await made.end()
    found = map(proctable.entry, held)
    alive = [one for one in found if one is not None and one.is_running]
    made.release()
    print(json.dumps([len(held), len(alive), list(cgroups.shards())]))

asyncio.run(run())
"""

_NEXT = """
import asyncio, json, os, sys
from pathlib import Path
from llmgw.agent.supervisor import cgroups
from llmgw.agent.supervisor.supervisor import Supervisor
from llmgw.config.tending import SupervisorSettings
from llmgw.kit.clock import SystemClock

(Path(sys.argv[2]) / "cgroup.procs").write_text(str(os.getpid()))

async def run():
    settings = SupervisorSettings(work_dir=sys.argv[1])
    made = Supervisor(
        node_id="n", settings=settings, clock=SystemClock(), on_report=lambda report: None
    )
    await made.recover(lambda spec: None)
    await made.close()
    print(json.dumps(list(cgroups.shards())))

asyncio.run(run())
"""


def _mounted() -> Path | None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            return Path(fields.split()[4])
    return None


@pytest.fixture
def group():
    """A control group that is handed on as systemd does it; empty when the test is over."""
    mounted = _mounted()
    if mounted is None:
        pytest.skip("there are no control groups of the second kind here")
    made = mounted / f"llmgw-test-{secrets.token_hex(4)}"
    try:
        made.mkdir()
        os.setxattr(made, "user.delegate", b"1")
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield made
    (made / "cgroup.kill").write_text("1")
    deadline = time.monotonic() + 20
    while "populated 1" in (made / "cgroup.events").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for one in (*made.glob("shard-*"), made):
        one.rmdir()


def run(script, *words):
    done = subprocess.run(
        (sys.executable, "-c", script, *map(str, words)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_child_without_session_mark_and_parent_ends_with_its_engine(tmp_path, group):
    assert run(_AGENT, tmp_path, group, "ends") == [2, 0, []]


def test_what_an_agent_left_in_a_group_is_ended_by_the_next_one(tmp_path, group):
    assert run(_AGENT, tmp_path, group, "is-killed") == [2, 1, ["demo-1.0"]]
    assert run(_NEXT, tmp_path, group) == []


def test_a_group_that_is_not_handed_on_is_left_alone(tmp_path, group):
    os.removexattr(group, "user.delegate")
    assert run(_AGENT, tmp_path, group, "is-killed")[::2] == [0, []]
    assert not list(group.glob("shard-*"))
