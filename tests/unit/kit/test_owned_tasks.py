"""An owner's tasks have all ended when it closes, and tidied up behind them."""

from __future__ import annotations

import asyncio

from llmgw.kit.tasks import Tasks


async def test_close_lets_a_task_that_was_cancelled_before_finish_what_it_tidies():
    tasks, may_tidy, tidied = Tasks(owner="tests"), asyncio.Event(), []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await may_tidy.wait()
            tidied.append(True)

    task = tasks.spawn("work", work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    closing = asyncio.create_task(tasks.close())
    await asyncio.sleep(0)
    may_tidy.set()
    await closing
    assert (tidied, len(tasks)) == ([True], 0)


async def test_what_is_spawned_during_the_end_is_ended_too():
    tasks = Tasks(owner="tests")

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            tasks.spawn("late", asyncio.Event().wait())

    tasks.spawn("work", work())
    await asyncio.sleep(0)
    await tasks.close()
    assert len(tasks) == 0
