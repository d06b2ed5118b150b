"""Workers ask each other for receipts: at a time so many, and never without an answer."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from pathlib import Path

import pytest

from llmgw.serve import siblings
from llmgw.serve.siblings import Siblings

OTHERS_PID = 1


def open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
def deaf(tmp_path):
    """The door of a sibling that stands still: who knocks waits."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.bind(str(siblings.socket_path(tmp_path, pid=OTHERS_PID)))
    door.listen(1024)
    yield door
    door.close()


async def test_flood_of_questions_opens_few_connections_and_ends_within_its_time(tmp_path, deaf):
    asking = Siblings(tmp_path, find=lambda _: None)
    began_at = asyncio.get_running_loop().time()
    before = open_files()
    questions = [asyncio.create_task(asking.receipt(f"req-{n}")) for n in range(200)]
    await asyncio.sleep(0.1)
    assert open_files() - before <= 16
    words = await asyncio.gather(*questions)
    assert asyncio.get_running_loop().time() - began_at < 5
    assert {word.is_complete for word in words} == {False}


async def test_who_may_open_no_more_files_says_that_not_all_were_asked(tmp_path, deaf):
    asking = Siblings(tmp_path, find=lambda _: None)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        word = await asking.receipt("req-1")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (word.receipt, word.is_complete) == (None, False)
