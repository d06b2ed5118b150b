"""Makes an empty store a copy of another one, table by table, and proves that it is one.

Each table comes after those that it points at, in pages of one transaction each. A move that was
cut off is begun again: what is there already is compared and left alone. Until the end the new
store is marked, so that no server uses half of one; the old one is only read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

from llmgw.domain.copies import Copied, Held
from llmgw.errors import Conflict

PAGE = 2000
"""Rows of one transaction."""

_Row = Mapping[str, Any]


class Tables(Protocol):
    """The tables of one store."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Their names, each after those that it points at."""
        ...

    async def begin(self, source: str) -> None:
        """Mark the store as one that is being filled; ``Conflict`` where it holds other things."""
        ...

    def pages(self, name: str, *, size: int) -> AsyncIterator[Sequence[_Row]]:
        """Every row of a table."""
        ...

    async def held(self, name: str, *, size: int) -> Held:
        """How many rows there are, and a digest of them."""
        ...

    async def put(self, name: str, rows: Sequence[_Row]) -> None:
        """Write rows; one that is there already becomes as it is given."""
        ...

    async def absent(self, name: str, rows: Sequence[_Row]) -> Sequence[_Row]:
        """Those of these rows whose keys are not there."""
        ...

    async def remove(self, name: str, rows: Sequence[_Row]) -> None:
        """Let go of rows."""
        ...

    async def leases(self) -> Sequence[_Row]:
        """Who led, and under which terms."""
        ...

    async def finish(self, held: Sequence[_Row]) -> None:
        """Take the mark away, with the leases of the source."""
        ...


class Move:
    """One store into another."""

    def __init__(
        self,
        source: Tables,
        target: Tables,
        *,
        name: str,
        on_table: Callable[[Copied], None] = lambda _: None,
        page: int = PAGE,
    ) -> None:
        """``name`` is what the source is called, by which a later run knows its own work."""
        self._source = source
        self._target = target
        self._name = name
        self._on_table = on_table
        self._page = page

    async def run(self) -> Sequence[Copied]:
        """Copy everything; ``Conflict`` where the target is not empty or the source changed."""
        await self._target.begin(self._name)
        before = {name: await self._both(name) for name in self._source.tables}
        different = [name for name in self._source.tables if before[name][0] != before[name][1]]
        for name in different:
            async for rows in self._source.pages(name, size=self._page):
                await self._target.put(name, rows)
        for name in reversed(different):
            if before[name][1].rows:
                await self._remove_others(name)
        done = [await self._proved(name, was_there=name not in different) for name in before]
        await self._target.finish(await self._source.leases())
        return done

    async def _both(self, name: str) -> tuple[Held, Held]:
        source = await self._source.held(name, size=self._page)
        return source, await self._target.held(name, size=self._page)

    async def _remove_others(self, name: str) -> None:
        """What an earlier run has copied and is in the source no more."""
        async for rows in self._target.pages(name, size=self._page):
            if gone := await self._source.absent(name, rows):
                await self._target.remove(name, gone)

    async def _proved(self, name: str, *, was_there: bool) -> Copied:
        source, target = await self._both(name)
        if source != target:
            raise Conflict(
                f"the table {name} has {source.rows} rows and {target.rows} were copied, or they "
                "differ: somebody changed it meanwhile; run this again"
            )
        copied = Copied(name, rows=target.rows, was_there=was_there)
        self._on_table(copied)
        return copied
