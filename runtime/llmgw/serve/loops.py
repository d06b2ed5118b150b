"""Runs a process's main coroutine on the fastest event loop that is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

try:
    import uvloop
except ImportError:  # not in every extra nor on every platform; asyncio's own loop serves as well
    _new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
else:
    _new_loop = uvloop.new_event_loop

_T = TypeVar("_T")


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run ``main`` to its end: on uvloop where it is installed, else on asyncio's loop."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(main)
