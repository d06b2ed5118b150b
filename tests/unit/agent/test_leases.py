"""Leases: one holder on all hosts that share a folder, and what happens to one that sleeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from llmgw.agent.weights.holds import Holds
from llmgw.agent.weights.leases import STALE_S, Leases
from llmgw.agent.weights.partials import Partial
from llmgw.errors import AlreadyHeld

OTHER_HOST = {
    "mark": "theirs",
    "boot_id": "00000000-0000-0000-0000-000000000000",
    "pid_namespace": "pid:[1]",
    "pid": 1,
    "started_ticks": 1,
    "beats": 1,
}


@pytest.fixture
def leases(clock):
    return Leases(clock=clock)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.lock"


def held_elsewhere(path, **changed):
    path.write_text(json.dumps({**OTHER_HOST, **changed}))


def test_a_lease_has_one_holder_until_it_is_given_up(leases, path):
    lease = leases.take(path)
    assert leases.take(path) is None
    lease.release()
    assert not path.exists()
    again = leases.take(path)
    again.release()
    lease.release()


def test_the_lease_of_another_host_holds_while_it_changes(leases, path, clock):
    held_elsewhere(path)
    for beats in range(20):
        assert leases.take(path) is None
        clock.advance(STALE_S - 1)
        held_elsewhere(path, beats=beats + 2)


def test_the_lease_of_another_host_that_is_silent_is_taken_over(leases, path, clock):
    held_elsewhere(path)
    assert leases.take(path) is None
    clock.advance(STALE_S)
    lease = leases.take(path)
    lease.check()
    lease.release()
    assert list(path.parent.iterdir()) == []


def test_silence_is_counted_from_when_it_was_first_heard(leases, path, clock):
    clock.advance(10 * STALE_S)
    held_elsewhere(path)
    assert leases.take(path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'], ids=["empty", "cut", "list", "old"])
def test_a_lease_that_cannot_be_read_is_left_until_it_is_stale(leases, path, clock, text):
    path.write_text(text)
    assert leases.take(path) is None
    clock.advance(STALE_S)
    leases.take(path).release()


def test_the_lease_of_a_dead_process_of_this_host_is_taken_over_at_once(leases, path):
    program = (
        "import os, sys, pathlib\n"
        "from llmgw.agent.weights.leases import Leases\n"
        "from llmgw.kit.clock import SystemClock\n"
        "Leases(clock=SystemClock()).take(pathlib.Path(sys.argv[1]))\n"
        "os._exit(9)\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program, str(path)], env=environ, check=False)
    assert path.exists()
    lease = leases.take(path)
    assert lease is not None
    lease.release()


def test_a_number_that_another_process_has_now_frees_nothing_it_does_not_hold(leases, path):
    """The same number and another start: the holder is gone, whoever has its number."""
    first = leases.take(path)
    record = json.loads(path.read_text())
    first.release()
    path.write_text(json.dumps({**record, "started_ticks": 1}))
    lease = leases.take(path)
    assert lease is not None
    lease.release()


def test_a_holder_that_slept_too_long_learns_that_it_lost(leases, path, clock):
    slept = leases.take(path)
    others = Leases(clock=clock)
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "boot_id": "another"}))
    assert others.take(path) is None
    clock.advance(STALE_S)
    new = others.take(path)
    with pytest.raises(AlreadyHeld, match="taken over"):
        slept.beat()
    slept.release()
    new.check()
    new.release()


def test_what_a_sleeper_writes_after_its_loss_changes_nothing(tmp_path, clock):
    """It is refused at its block, and a new beginning is another file that it does not have."""
    target = tmp_path / "model.gguf"
    holds = Holds(is_shared=lambda folder: True, clock=clock)
    slept = holds.take(target)
    sleeper = Partial(target, hold=slept)
    sleeper.restart(validator='"v1"', digest=None)
    sleeper.append(b"old old old")
    lock = tmp_path / "model.gguf.lock"
    lock.write_text(json.dumps({**json.loads(lock.read_text()), "boot_id": "another"}))
    others = Holds(is_shared=lambda folder: True, clock=clock)
    assert others.take(target) is None
    clock.advance(STALE_S)
    hold = others.take(target)
    heir = Partial(target, hold=hold)
    assert heir.size_bytes == len(b"old old old")
    heir.restart(validator='"v2"', digest=None)
    heir.append(b"new")
    with pytest.raises(AlreadyHeld):
        sleeper.append(b"old")
    with pytest.raises(AlreadyHeld):
        sleeper.finish()
    heir.finish()
    for one in (sleeper, heir):
        one.close()
    slept.release()
    hold.release()
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_filesystem_without_locks_of_the_kernel_gets_a_lease(tmp_path, clock, monkeypatch):
    def refuse(descriptor, kind):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    hold = Holds(is_shared=lambda folder: False, clock=clock).take(tmp_path / "m")
    assert json.loads((tmp_path / "m.lock").read_text())["mark"]
    hold.release()
