"""Lets go of rows of usage that are older than is wanted; their sums stay."""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn, Protocol

from llmgw.domain.usage_reports import DAY_S
from llmgw.errors import LlmgwError
from llmgw.kit import logs
from llmgw.kit.clock import Clock
from llmgw.kit.tasks import Tasks

EVERY_S: Final = 3600.0

_log = logs.get(__name__)


class Aged(Protocol):
    """What grows old; ``store.usage_repo.UsageRepo`` fits."""

    async def prune(self, *, before: float) -> int:
        """Let go of whole days before a time."""
        ...


class Retention:
    """Looks now and then, from ``start`` to ``close``; several servers may do so at once."""

    def __init__(
        self, rows: Aged, *, retain_days: int, clock: Clock, every_s: float = EVERY_S
    ) -> None:
        """``retain_days`` whole days are kept, beside the one that runs."""
        self._rows = rows
        self._retain_days = retain_days
        self._clock = clock
        self._every_s = every_s
        self._tasks = Tasks(owner="usage")

    def start(self) -> None:
        """Look from now on."""
        self._tasks.spawn("retention", self._run())

    async def close(self) -> None:
        """Look no more."""
        await self._tasks.close()

    async def _run(self) -> NoReturn:
        while True:
            before = (self._clock.wall() // DAY_S - self._retain_days) * DAY_S
            try:
                gone = await self._rows.prune(before=before)
            except LlmgwError as error:
                _log.warning("usage_not_pruned", reason=error.message, retry_s=self._every_s)
            else:
                if gone:
                    _log.info("usage_pruned", parts=gone, retain_days=self._retain_days)
            await asyncio.sleep(self._every_s)
