"""Reads and writes whole tables, page by page, so that one store can be made a copy of another.

``accounts.relocating`` decides what is copied when; here is no order but that of the tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Integer,
    Table,
    and_,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.copies import Held
from llmgw.domain.usage_reports import DAY_S
from llmgw.errors import Conflict
from llmgw.store import migrating, upserting, usage_partitions
from llmgw.store.database import Database
from llmgw.store.tables import leases, metadata, schema_facts, usage

_APART = frozenset({schema_facts.name, leases.name})
"""What tells of the store itself; leases are handed over at the end."""

_DIGEST_BITS = 256
_KEYS_AT_ONCE = 200

Row = Mapping[str, Any]


class Transfers:
    """The tables of one store."""

    def __init__(self, database: Database) -> None:
        """It is open."""
        self._database = database
        self._days: set[float] = set()
        """Of usage, that are there to be written to."""

    @property
    def tables(self) -> tuple[str, ...]:
        """What is copied, each table after those that it points at."""
        return tuple(one.name for one in metadata.sorted_tables if one.name not in _APART)

    async def begin(self, source: str) -> None:
        """Mark this store as one that is being filled; a server refuses it until the end.

        ``Conflict`` where it holds anything that did not come from the same source.
        """

        async def work(connection: AsyncConnection) -> None:
            owner = await _mark_of(connection)
            if owner is None:
                await self._check_empty(connection)
                await connection.execute(
                    insert(leases),
                    {
                        "name": migrating.BEING_FILLED,
                        "owner": source,
                        "term": 0,
                        "address": "",
                        "expires_at": 0,
                    },
                )
            elif owner != source:
                raise Conflict(
                    f"the store {self._database.address.shown} is being filled from {owner}; "
                    "go on with that one, or give an empty database"
                )

        await self._database.write(work)

    async def pages(self, name: str, *, size: int) -> AsyncIterator[Sequence[Row]]:
        """Every row, in the order of the key."""
        table = metadata.tables[name]
        keys = tuple(table.primary_key.columns)
        after: Row | None = None
        while True:
            query = select(table).order_by(*keys).limit(size)
            if after is not None:
                last = tuple_(*(_bound(column, after) for column in keys))
                query = query.where(tuple_(*keys) > last)
            rows = await self._rows(query)
            if rows:
                yield rows
            if len(rows) < size:
                return
            after = rows[-1]

    async def held(self, name: str, *, size: int) -> Held:
        """How many rows there are, and a digest of them that knows no order."""
        count, total = 0, 0
        async for rows in self.pages(name, size=size):
            count += len(rows)
            total += sum(_digest(row) for row in rows)
        return Held(count, f"{total % 2**_DIGEST_BITS:064x}")

    async def put(self, name: str, rows: Sequence[Row]) -> None:
        """Write rows; one that is there already becomes as it is given."""
        table = metadata.tables[name]
        keys = [column.name for column in table.primary_key.columns]
        others = [column.name for column in table.columns if column.name not in keys]
        days = {row["at"] // DAY_S * DAY_S for row in rows} if table is usage else set()

        async def work(connection: AsyncConnection) -> None:
            await usage_partitions.make(connection, days=days - self._days)
            statement = upserting.insert(connection, table)
            values = {column: statement.excluded[column] for column in others}
            written = statement.on_conflict_do_update(index_elements=keys, set_=values)
            # One statement for each: a single one of many rows takes its time to be written.
            await connection.execute(written, list(rows))

        await self._database.write(work)
        self._days |= days

    async def absent(self, name: str, rows: Sequence[Row]) -> Sequence[Row]:
        """Those of these rows whose keys are not here."""
        table = metadata.tables[name]
        keys = [column.name for column in table.primary_key.columns]
        missing: list[Row] = []
        for begin in range(0, len(rows), _KEYS_AT_ONCE):
            some = rows[begin : begin + _KEYS_AT_ONCE]
            columns = (table.c[key] for key in keys)
            found = await self._rows(select(*columns).where(_is_one_of(table, some)))
            there = {tuple(row[key] for key in keys) for row in found}
            missing += [row for row in some if tuple(row[key] for key in keys) not in there]
        return missing

    async def remove(self, name: str, rows: Sequence[Row]) -> None:
        """Let go of rows by their keys."""
        table = metadata.tables[name]

        async def work(connection: AsyncConnection) -> None:
            for begin in range(0, len(rows), _KEYS_AT_ONCE):
                some = rows[begin : begin + _KEYS_AT_ONCE]
                await connection.execute(delete(table).where(_is_one_of(table, some)))

        await self._database.write(work)

    async def leases(self) -> Sequence[Row]:
        """Who led, and under which terms: who leads next must have a higher one."""
        return await self._rows(select(leases).where(leases.c.name != migrating.BEING_FILLED))

    async def finish(self, held: Sequence[Row]) -> None:
        """Take the mark away, and go on counting where the source did."""
        ended = [{**row, "expires_at": 0} for row in held]

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(delete(leases))
            if ended:
                await connection.execute(insert(leases), ended)
            for name in self.tables:
                await _count_on(connection, metadata.tables[name])

        await self._database.write(work)

    async def _rows(self, query: Any) -> Sequence[Row]:
        async def work(connection: AsyncConnection) -> Sequence[Row]:
            found = (await connection.execute(query)).all()
            return [dict(row._mapping) for row in found]  # noqa: SLF001 - public; the dash is against columns' names

        return await self._database.read(work)

    async def _check_empty(self, connection: AsyncConnection) -> None:
        for table in (*(metadata.tables[name] for name in self.tables), leases):
            if (await connection.execute(select(table).limit(1))).first() is not None:
                raise Conflict(
                    f"the store {self._database.address.shown} is not empty: there are rows in "
                    f"{table.name!r}; give an empty database"
                )


async def _mark_of(connection: AsyncConnection) -> str | None:
    query = select(leases.c.owner).where(leases.c.name == migrating.BEING_FILLED)
    owner: str | None = (await connection.execute(query)).scalar()
    return owner


async def _count_on(connection: AsyncConnection, table: Table) -> None:
    """Numbers that the database gives go on after the highest that was copied."""
    column = table.autoincrement_column
    is_counted = column is not None and isinstance(column.type, Integer)
    if column is None or not is_counted or connection.dialect.name != "postgresql":
        return
    named = {"table": table.name, "column": column.name}
    query = text("SELECT pg_get_serial_sequence(:table, :column)")
    if (sequence := (await connection.execute(query, named)).scalar()) is None:
        return
    highest = (await connection.execute(select(func.max(column)))).scalar()
    if highest is not None:
        counted = text("SELECT setval(CAST(:sequence AS regclass), :highest)")
        await connection.execute(counted, {"sequence": sequence, "highest": highest})


def _is_one_of(table: Table, rows: Sequence[Row]) -> ColumnElement[bool]:
    keys = tuple(table.primary_key.columns)
    return or_(*(and_(*(column == row[column.name] for column in keys)) for row in rows))


def _bound(column: Column[Any], row: Row) -> ColumnElement[Any]:
    """The value of a key as its column writes it, inside a tuple of several."""
    return literal(row[column.name], column.type)


def _digest(row: Row) -> int:
    told = json.dumps(list(row.values()), default=_told, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(told.encode()).digest())


def _told(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(type(value).__name__)
