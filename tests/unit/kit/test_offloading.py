"""Blocking work beside the loop: its result, its error, and the bound on waiting for it."""

import asyncio
import threading

import pytest

from llmgw.errors import DeadlinePassed
from llmgw.kit.offloading import Lane


async def test_the_result_comes_back_from_another_thread():
    here = threading.get_ident()
    assert await Lane(name="work").run(threading.get_ident, timeout_s=5) != here


async def test_the_error_comes_back_too():
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Lane(name="work").run(fail, timeout_s=5)


async def test_a_timeout_of_the_work_itself_is_not_taken_for_ours():
    def fail():
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await Lane(name="work").run(fail, timeout_s=5)


async def test_work_that_hangs_is_left_behind_and_the_next_waits_for_it_within_its_bound():
    lane, gate = Lane(name="reading"), threading.Event()
    with pytest.raises(DeadlinePassed, match="reading hangs"):
        await lane.run(gate.wait, timeout_s=0.02)
    with pytest.raises(DeadlinePassed, match="reading hangs"):
        await lane.run(lambda: 1, timeout_s=0.02)
    gate.set()
    assert await lane.run(lambda: 2, timeout_s=5) == 2


async def test_two_callers_go_one_after_the_other():
    lane, at_once, most = Lane(name="work"), [], []

    def work():
        at_once.append(1)
        most.append(len(at_once))
        at_once.pop()

    await asyncio.gather(*(lane.run(work, timeout_s=5) for _ in range(5)))
    assert most == [1] * 5


async def test_the_failure_of_work_that_nobody_awaits_any_more_is_quiet():
    lane, gate = Lane(name="work"), threading.Event()

    def fail():
        gate.wait()
        raise ValueError("too late")

    with pytest.raises(DeadlinePassed):
        await lane.run(fail, timeout_s=0.01)
    gate.set()
    assert await lane.run(lambda: 3, timeout_s=5) == 3
