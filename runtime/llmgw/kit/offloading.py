"""Blocking work beside the event loop, with a bound on how long it is waited for.

A read that hangs (a dead network disk, a broken driver) must neither stop the loop nor the end of
the process, so it runs in a daemon thread that may be left behind; executors join theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from llmgw.errors import DeadlinePassed

_T = TypeVar("_T")

_LAST_WAIT_S = 5.0


async def to_the_end(
    work: Callable[[], _T], *, give_back: Callable[[_T], None] | None = None
) -> _T:
    """The result of work in a thread, which is over when this ends, also when it is cancelled.

    What it took and nobody is left to use (a lock, an open file) goes to ``give_back``. Work that
    hangs is waited for a few seconds, and what it still takes is given back then.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work))

    def undo(ended: asyncio.Future[_T]) -> None:
        if not ended.cancelled() and ended.exception() is None and give_back is not None:
            give_back(ended.result())

    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        try:
            await asyncio.wait({running}, timeout=_LAST_WAIT_S)
        finally:
            running.add_done_callback(undo)
        raise


class Lane:
    """Runs one piece of work at a time; while one hangs, the next waits for it within its bound."""

    def __init__(self, *, name: str) -> None:
        """``name`` is what the work is called in messages and in the list of threads."""
        self._name = name
        self._current: asyncio.Future[Any] | None = None

    async def run(self, work: Callable[[], _T], *, timeout_s: float) -> _T:
        """The work's result or exception; ``DeadlinePassed`` when it, or one before, hangs."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout_s
        while self._current is not None and not self._current.done():
            await self._settled(self._current, give_up_at=give_up_at)
        ended: asyncio.Future[_T] = loop.create_future()
        ended.add_done_callback(_seen)
        self._current = ended
        arguments = (work, loop, ended)
        threading.Thread(target=_work, args=arguments, name=self._name, daemon=True).start()
        await self._settled(ended, give_up_at=give_up_at)
        return ended.result()

    async def _settled(self, ended: asyncio.Future[Any], *, give_up_at: float) -> None:
        left_s = max(0.0, give_up_at - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait({ended}, timeout=left_s)
        if not done:
            raise DeadlinePassed(f"{self._name} hangs")


def _work(
    work: Callable[[], _T], loop: asyncio.AbstractEventLoop, ended: asyncio.Future[_T]
) -> None:
    try:
        settle = functools.partial(ended.set_result, work())
    except BaseException as error:  # noqa: BLE001  (handed to the one who waits)
        settle = functools.partial(ended.set_exception, error)
    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
        loop.call_soon_threadsafe(settle)


def _seen(ended: asyncio.Future[Any]) -> None:
    """Nobody may be left to take the exception of work that was given up."""
    if not ended.cancelled():
        ended.exception()
