"""A machine that hides the processes of other users: our own engines are found all the same."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

NOBODY = 65534
_LOOK = f"""
import ctypes, os, subprocess
from llmgw.agent.supervisor import kinship
from llmgw.kit import proctable
os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})
ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE, as it is for whoever is started as that user
own = subprocess.Popen(["sleep", "5"], start_new_session=True, stdout=subprocess.DEVNULL)
try:
    leader = kinship.Identity("engine", own.pid, proctable.entry(own.pid).start_ticks)
    print([one.pid for one in kinship.Census().of([leader], mark="none")] == [own.pid])
finally:
    own.kill()
"""


@pytest.fixture
async def in_namespace():
    """Runs a program where the mounts are its own, after a line of shell; what it printed."""
    if os.geteuid() != 0:
        pytest.skip("another user than root cannot mount")
    tried = await asyncio.create_subprocess_exec("unshare", "-m", "true")
    if await tried.wait():
        pytest.skip("no namespaces here")

    async def run(mount, *words):
        shell = ("unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable)
        made = await asyncio.create_subprocess_exec(
            *shell, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        async with asyncio.timeout(60):
            told, _ = await made.communicate()
        return told.decode().strip()

    return run


@pytest.mark.parametrize("kind", ["hidepid=1", "hidepid=2"])
async def test_processes_of_others_that_are_hidden_hide_none_of_ours(in_namespace, kind):
    assert await in_namespace(f"mount -t proc -o {kind} proc /proc", "-c", _LOOK) == "True"


async def test_without_proc_an_agent_refuses_with_a_sentence(in_namespace, tmp_path):
    settings = tmp_path / "agent.yaml"
    settings.write_text(f"supervisor: {{work_dir: {tmp_path}/work}}\n")
    words = ("agent", "--config", str(settings), "--server", "127.0.0.1:1")
    words = (*words, "--mgmt-addr", "127.0.0.1")
    said = await in_namespace("mount -t tmpfs none /proc", "-m", "llmgw", *words)
    assert said.startswith("llmgw: /proc does not show this machine's processes")
    assert "\n" not in said
    assert not (tmp_path / "work").exists()
