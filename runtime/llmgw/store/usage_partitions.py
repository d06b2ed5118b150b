"""Days of usage: on PostgreSQL a table each, so that an old day goes at once and not row by row.

A day is made by the first row of it. It is made beside the whole and then attached, which waits for
no reader and stops none.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence

from sqlalchemy import delete, inspect, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.usage_reports import DAY_S
from llmgw.store.database import Database, Work
from llmgw.store.tables import usage

_LOCK = 0x6C6C6D67770005
"""The advisory lock under which days are made and dropped."""

_PREFIX = "usage_day_"
_NAME = re.compile(rf"{_PREFIX}(\d{{8}})")
_AT_ONCE = 5000
"""Rows of a SQLite file that go in one transaction."""


async def make(connection: AsyncConnection, *, days: Iterable[float]) -> None:
    """See that each day, named by its first second, can be written to."""
    if connection.dialect.name != "postgresql":
        return
    for day in sorted(days):
        if not await _is_there(connection, day):
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            if not await _is_there(connection, day):
                await _make(connection, day)


async def prune(database: Database, *, before: float) -> int:
    """Drop the days before this one; or, of a SQLite file, its rows; how many."""
    if database.is_sqlite:
        gone = 0
        while (removed := await database.write(_deleting(before))) > 0:
            gone += removed
        return gone

    old = [day for day in await database.read(_days) if day < before]
    for day in old:
        await database.write(_dropping(day))
    return len(old)


def name_of(day: float) -> str:
    """The table of a day, named by its first second."""
    return _PREFIX + dt.datetime.fromtimestamp(day, tz=dt.UTC).strftime("%Y%m%d")


async def _is_there(connection: AsyncConnection, day: float) -> bool:
    """Asked of the catalog itself: ``to_regclass`` may remember that there was none."""
    found = await connection.execute(
        text(
            "SELECT 1 FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid "
            "WHERE inhparent = 'usage'::regclass AND relname = :name"
        ),
        {"name": name_of(day)},
    )
    return found.first() is not None


async def _make(connection: AsyncConnection, day: float) -> None:
    name, begin_ms = name_of(day), round(day * 1000)
    await connection.execute(text(f"CREATE TABLE {name} (LIKE usage INCLUDING ALL)"))
    await connection.execute(
        text(
            f"ALTER TABLE usage ATTACH PARTITION {name} "
            f"FOR VALUES FROM ({begin_ms}) TO ({begin_ms + DAY_S * 1000})"
        )
    )


async def _days(connection: AsyncConnection) -> Sequence[float]:
    names = await connection.run_sync(lambda made: inspect(made).get_table_names())
    found = [match[1] for name in names if (match := _NAME.fullmatch(name)) is not None]
    return sorted(
        dt.datetime.strptime(digits, "%Y%m%d").replace(tzinfo=dt.UTC).timestamp()
        for digits in found
    )


def _dropping(day: float) -> Work[None]:
    """One a transaction: a file of its own goes with each, and that may take a disk a while."""

    async def work(connection: AsyncConnection) -> None:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        await connection.execute(text(f"DROP TABLE IF EXISTS {name_of(day)}"))

    return work


def _deleting(before: float) -> Work[int]:
    oldest = select(usage.c.entry_id).where(usage.c.at < before).limit(_AT_ONCE)

    async def work(connection: AsyncConnection) -> int:
        gone = delete(usage).where(usage.c.entry_id.in_(oldest), usage.c.at < before)
        return (await connection.execute(gone)).rowcount

    return work
