"""Owned background tasks: each has a name, its owner ends it, and its death is never silent."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from llmgw.kit import logs

_CANCEL_AGAIN_S = 5.0
"""Longer than what a task tidies away at its end takes on a busy machine: that is cut short too."""

_log = logs.get(__name__)


class Tasks:
    """The tasks of one owner; ``close`` cancels and awaits all of them."""

    def __init__(self, *, owner: str) -> None:
        """``owner`` is the prefix of each task's name."""
        self._owner = owner
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task; an exception that nobody awaits is logged as an error with its stack."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}.{name}")
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancel every task and wait until each has ended; tasks spawned meanwhile are ended too.

        One that was cancelled already is let finish; one that swallowed its cancellation
        (``asyncio.wait_for`` of 3.11 may) is cancelled again.
        """
        current = asyncio.current_task()
        asked: set[asyncio.Task[Any]] = {t for t in self._running if t.cancelling()}
        while remaining := {t for t in self._running if t is not current}:
            for task in remaining - asked:
                task.cancel()
            asked.clear()
            ended, _ = await asyncio.wait(remaining, timeout=_CANCEL_AGAIN_S)
            self._running -= ended

    def __len__(self) -> int:
        """How many are running."""
        return len(self._running)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task_died", task=task.get_name(), error=repr(error), exc=error)
