"""A machine that hides the processes of other users: our own engines are found all the same."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

NOBODY = 65534
_LOOK = f"""
import ctypes, os, subprocess
from llmgw.agent.supervisor import kinship, proctable
os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})
ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE, as it is for whoever is started as that user
own = subprocess.Popen(["sleep", "5"], start_new_session=True, stdout=subprocess.DEVNULL)
try:
    leader = kinship.Identity("engine", own.pid, proctable.entry(own.pid).start_ticks)
    print([one.pid for one in kinship.Census().of([leader], mark="none")] == [own.pid])
finally:
    own.kill()
"""


@pytest.mark.parametrize("kind", ["hidepid=1", "hidepid=2"])
async def test_processes_of_others_that_are_hidden_hide_none_of_ours(kind):
    mount = f'mount -t proc -o {kind} proc /proc && exec "$@"'
    words = ("unshare", "-m", "sh", "-c", mount, "sh", sys.executable, "-c", _LOOK)
    if os.geteuid() != 0:
        pytest.skip("another user than root cannot become a third one")
    tried = await asyncio.create_subprocess_exec("unshare", "-m", "true")
    if await tried.wait():
        pytest.skip("no namespaces here")
    made = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    told, _ = await made.communicate()
    assert told.decode().strip() == "True"
