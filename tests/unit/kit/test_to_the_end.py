"""Work in a thread that is over when its caller is, and gives back what nobody uses."""

from __future__ import annotations

import asyncio
import threading

import pytest

from llmgw.kit import offloading


async def test_the_result_is_the_works():
    assert await offloading.to_the_end(lambda: 7) == 7
    with pytest.raises(ValueError, match="no"):
        await offloading.to_the_end(lambda: int("no"))


async def test_a_cancelled_caller_ends_after_its_work_and_gives_back_what_it_took():
    began, may_end, given = threading.Event(), threading.Event(), []

    def work():
        began.set()
        may_end.wait(10)
        return "lock"

    caller = asyncio.ensure_future(offloading.to_the_end(work, give_back=given.append))
    await asyncio.to_thread(began.wait, 10)
    caller.cancel()
    await asyncio.sleep(0)
    assert not caller.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await asyncio.sleep(0)
    assert given == ["lock"]


async def test_work_that_fails_while_its_caller_leaves_gives_nothing_back():
    began, may_end, given = threading.Event(), threading.Event(), []

    def work():
        began.set()
        may_end.wait(10)
        return int("no")

    caller = asyncio.ensure_future(offloading.to_the_end(work, give_back=given.append))
    await asyncio.to_thread(began.wait, 10)
    caller.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await asyncio.sleep(0)
    assert given == []
