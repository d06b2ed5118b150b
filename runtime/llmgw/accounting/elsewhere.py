"""What other hosts spend below the places that this host counts: so budgets are shared by all.

The store knows what all of them spent, and this host what it brought there itself; the rest was
spent elsewhere, and goes into the server's row of the limits board.  Fits ``ledger.Rows``, between
the ledger and the store, to know what is its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from llmgw.accounting import rebuilding
from llmgw.accounting.host_limits import Spending
from llmgw.accounting.ledger import Rows
from llmgw.accounting.rebuilding import Sums, counters_of
from llmgw.domain import limits
from llmgw.domain.usage_reports import Spend
from llmgw.domain.usage_rows import UsageRow
from llmgw.errors import LlmgwError
from llmgw.kit import logs
from llmgw.kit.clock import Clock
from llmgw.kit.tasks import Tasks

EVERY_S = 5.0

_log = logs.get(__name__)


class Board(Protocol):
    """Where spending is counted; ``host_limits.HostLimits`` fits."""

    def spend(self, counter: str, micros: int, *, now: float) -> None:
        """So much was spent elsewhere, below a counter that may be counted here or not."""
        ...


class Elsewhere:
    """See the module, from ``start`` to ``close``; ``board`` is given to it."""

    def __init__(self, rows: Rows, *, sums: Sums, clock: Clock, every_s: float = EVERY_S) -> None:
        """``rows`` and ``sums`` are those of one store."""
        self.board: Board | None = None
        self._rows = rows
        self._sums = sums
        self._clock = clock
        self._every_s = every_s
        self._brought: Counter[str] = Counter()
        self._day: float | None = None
        self._known: Mapping[str, int] = {}
        self._one_at_a_time = asyncio.Lock()
        self._tasks = Tasks(owner="elsewhere")

    def start(self) -> None:
        """Begin to look, once what was noted before is in the store."""
        self._tasks.spawn("look", self._look_on())

    async def close(self) -> None:
        """Look no more."""
        await self._tasks.close()

    async def write(self, rows: Sequence[UsageRow]) -> int:
        """See ``ledger.Rows``: these are this host's own."""
        async with self._one_at_a_time:
            count = await self._rows.write(rows)
            for row in rows:
                self._brought[row.key_id] += row.cost_micros
        return count

    async def spendings(self, *, now: float) -> Mapping[str, Spending]:
        """See ``rebuilding``; who begins to count with them hears of what comes after."""
        await self.look()
        return await rebuilding.spendings(self._sums, now=now)

    async def look(self) -> None:
        """Count what was spent elsewhere since the last look of this day."""
        now = self._clock.wall()
        day = limits.period_start("day", now)
        async with self._one_at_a_time:
            spends = await self._sums.spent(since=day)
            brought, self._brought = self._brought, Counter()
        if self._day == day and self.board is not None:
            self._count(self.board, spends, brought, now=now)
        self._day = day
        self._known = {spend.key_id: spend.micros for spend in spends}

    def _count(
        self, board: Board, spends: Sequence[Spend], brought: Mapping[str, int], *, now: float
    ) -> None:
        for spend in spends:
            own = brought.get(spend.key_id, 0)
            micros = spend.micros - self._known.get(spend.key_id, 0) - own
            if micros <= 0:
                continue
            for counter in counters_of(spend):
                board.spend(counter, micros, now=now)

    async def _look_on(self) -> None:
        while True:
            try:
                await self.look()
            except LlmgwError as error:
                _log.debug("spending_elsewhere_unknown", error=error.message)
            await asyncio.sleep(self._every_s)
