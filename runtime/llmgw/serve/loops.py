"""Runs a process's main coroutine on the fastest event loop that is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

try:
    from uvloop import new_event_loop as _uvloop
except (
    ImportError
):  # not in every extra, and absent on some platforms; asyncio's own loop serves as well
    _uvloop = None

_T = TypeVar("_T")


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run ``main`` to its end: on uvloop where it is installed, else on asyncio's loop."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = _uvloop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)
