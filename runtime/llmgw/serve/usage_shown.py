"""Shows the account of usage that a store keeps; fits ``api.ports.UsageBooks``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from llmgw.domain.usage_reports import DAY_S, DayCheck, Grouping, Span, UsageSum
from llmgw.domain.usage_rows import UsageRow
from llmgw.errors import NoStore
from llmgw.kit.clock import Clock


class Sums(Protocol):
    """The sums of a store; ``store.usage_sums_repo.UsageSumsRepo`` fits."""

    async def report(
        self, by: Grouping, span: Span, *, key_id: str = "", limit: int = ...
    ) -> Sequence[UsageSum]:
        """Sums by whose it is."""
        ...

    async def check_day(self, day: float) -> DayCheck:
        """One day, summed in all ways."""
        ...


class Rows(Protocol):
    """The rows of a store; ``store.usage_repo.UsageRepo`` fits."""

    async def page(
        self,
        *,
        since: float,
        until: float | None = None,
        after: UsageRow | None = None,
        limit: int = ...,
    ) -> Sequence[UsageRow]:
        """Rows of a time in order, those behind ``after``."""
        ...


class UsageShown:
    """The account of one store."""

    def __init__(self, *, rows: Rows | None, sums: Sums | None, clock: Clock) -> None:
        """Without them there is none."""
        self._rows = rows
        self._sums = sums
        self._clock = clock

    async def report(
        self, by: Grouping, span: Span, *, key_id: str = "", limit: int
    ) -> Sequence[UsageSum]:
        """See ``api.ports.UsageBooks``."""
        return await self._kept_sums().report(by, span, key_id=key_id, limit=limit)

    async def rows(self, span: Span) -> AsyncIterator[Sequence[UsageRow]]:
        """See ``api.ports.UsageBooks``; the first page is read before this returns."""
        if self._rows is None:
            raise _none_kept()
        first = await self._rows.page(since=span.since, until=span.until)
        return _pages(self._rows, span, first)

    async def check(self, *, days: int) -> Sequence[DayCheck]:
        """See ``api.ports.UsageBooks``."""
        sums, today = self._kept_sums(), self._clock.wall() // DAY_S * DAY_S
        return [await sums.check_day(today - back * DAY_S) for back in range(days)]

    def _kept_sums(self) -> Sums:
        if self._sums is None:
            raise _none_kept()
        return self._sums


async def _pages(
    rows: Rows, span: Span, page: Sequence[UsageRow]
) -> AsyncIterator[Sequence[UsageRow]]:
    """A transaction a page: one that is open for as long as somebody reads would hold up others."""
    while page:
        yield page
        page = await rows.page(since=span.since, until=span.until, after=page[-1])


def _none_kept() -> NoStore:
    return NoStore("this server has no store, so no usage is kept; set auth.store to have it kept")
