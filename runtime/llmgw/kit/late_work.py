"""Work that may take longer than anybody waits: what comes late goes to whoever asks next.

One piece of it is under way at a time, however many ask; nobody who leaves ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class LateWork(Generic[_T]):
    """The same work again and again; its owner closes it."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, _T]], *, name: str) -> None:
        """``name`` is what its task is called; nothing is begun."""
        self._work = work
        self._name = name
        self._under_way: asyncio.Task[_T] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether whoever asks next gets what was begun before."""
        return self._under_way is not None

    async def result(self, *, wait_s: float) -> _T | None:
        """What the work found, or ``None`` while it is not done; raises what it raised."""
        work = self._under_way or asyncio.create_task(self._work(), name=self._name)
        self._under_way = work
        await asyncio.wait({work}, timeout=wait_s)
        if not work.done():
            return None
        if self._under_way is work:
            self._under_way = None
        return work.result()

    async def close(self) -> None:
        """End what is under way."""
        if self._under_way is not None:
            self._under_way.cancel()
            await asyncio.gather(self._under_way, return_exceptions=True)
            self._under_way = None
