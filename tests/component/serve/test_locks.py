"""Locks that say who holds them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from llmgw.errors import AlreadyHeld, Invalid
from llmgw.serve import locks

HOLD = (
    "import sys, time; from pathlib import Path; from llmgw.serve import locks;"
    "locks.hold(Path(sys.argv[1]), what='it'); print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def holder(tmp_path):
    """Another process that holds a lock."""
    path = tmp_path / "folder" / "lock"
    words = [sys.executable, "-c", HOLD, path]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield path, process
        process.kill()


def assert_free(path):
    """It can be taken, and names whoever takes it."""
    with locks.hold(path, what="it"):
        assert path.read_text() == f"{os.getpid()}\n"


def test_who_comes_second_is_told_who_holds_it(holder):
    path, process = holder
    with pytest.raises(AlreadyHeld, match=f"it is in use by process {process.pid} \\(.*python"):
        locks.hold(path, what="it")


def test_a_killed_holder_holds_nothing(holder):
    path, process = holder
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert_free(path)


def test_a_child_does_not_keep_the_lock_of_its_parent(tmp_path):
    lock = locks.hold(tmp_path / "lock", what="it")
    with subprocess.Popen(["sleep", "60"]) as child:
        lock.release()
        assert_free(tmp_path / "lock")
        child.kill()


def test_a_released_lock_can_be_released_again_and_taken(tmp_path):
    with locks.hold(tmp_path / "lock", what="it") as lock:
        lock.release()
        assert_free(tmp_path / "lock")
    assert_free(tmp_path / "lock")


def test_the_file_names_the_holder_and_only_its_user_reads_it(tmp_path):
    with locks.hold(tmp_path / "lock", what="it"):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_made_is_a_mistake_of_the_settings(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Invalid, match="choose a folder"):
        locks.hold(tmp_path / "file" / "lock", what="run_dir")
