"""What requests used: rows, written once each, with their sums by hour and day in one transaction.

A row that is there already is left as it is and counted nowhere again, so that whoever is not sure
writes it once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, Table, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.pricing import Price
from llmgw.domain.usage_reports import DAY_S, HOUR_S
from llmgw.domain.usage_rows import UsageRow
from llmgw.store import upserting, usage_partitions
from llmgw.store.database import Database
from llmgw.store.tables import At, usage, usage_days, usage_hours

SUMMED = (
    "requests",
    "failed",
    "aborted",
    "lost",
    "estimated",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cost_micros",
    "latency_ms",
    "timed",
)
"""The columns of ``usage_hours`` and ``usage_days`` that are added up."""

PAGE = 1000
_KEYS = ("at", "key_id", "user_id", "project_id", "model")
_AS_THEY_ARE = tuple(
    column.name
    for column in usage.columns
    if column.name not in {"prompt_per_1k", "completion_per_1k"}
)


class UsageRepo:
    """The rows of one store."""

    def __init__(self, database: Database) -> None:
        """Usage of one store."""
        self._database = database

    async def write(self, rows: Sequence[UsageRow]) -> int:
        """Keep what is not there yet, and add it to the sums; how many those were."""
        if not rows:
            return 0
        rows = [row._replace(at=round(row.at, 3)) for row in rows]  # in whole ms, as it is kept
        values = [_values(row) for row in rows]

        async def work(connection: AsyncConnection) -> int:
            await usage_partitions.make(connection, days={row.at // DAY_S * DAY_S for row in rows})
            written = await connection.execute(
                upserting.insert(connection, usage)
                .on_conflict_do_nothing()
                .returning(usage.c.entry_id),
                values,
            )
            fresh = {entry_id for (entry_id,) in written}
            added = list({row.entry_id: row for row in rows if row.entry_id in fresh}.values())
            await _add(connection, usage_hours, _sums(added, span_s=HOUR_S))
            await _add(connection, usage_days, _sums(added, span_s=DAY_S))
            return len(added)

        return await self._database.write(work)

    async def page(
        self,
        *,
        since: float,
        until: float | None = None,
        after: UsageRow | None = None,
        limit: int = PAGE,
    ) -> Sequence[UsageRow]:
        """Rows of a time in order, those behind ``after``."""
        query = select(usage).where(usage.c.at >= since).order_by(usage.c.at, usage.c.entry_id)
        if until is not None:
            query = query.where(usage.c.at < until)
        if after is not None:
            last = tuple_(literal(after.at, At), literal(after.entry_id))
            query = query.where(
                usage.c.at >= after.at,  # by which PostgreSQL leaves out whole days
                tuple_(usage.c.at, usage.c.entry_id) > last,
            )

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            return (await connection.execute(query.limit(limit))).all()

        return [_row(found) for found in await self._database.read(work)]

    async def prune(self, *, before: float) -> int:
        """Let go of rows of whole days that are older; how many days, or rows of a SQLite file.

        Their sums stay.
        """
        return await usage_partitions.prune(self._database, before=before // DAY_S * DAY_S)


def _values(row: UsageRow) -> Mapping[str, object]:
    values = {name: getattr(row, name) for name in _AS_THEY_ARE}
    return {
        **values,
        "latency_ms": _whole(row.latency_ms),
        "prompt_per_1k": row.price.prompt_per_1k,
        "completion_per_1k": row.price.completion_per_1k,
    }


def _whole(latency_ms: float | None) -> int | None:
    """Sums of whole numbers are the same in any order."""
    return None if latency_ms is None else round(latency_ms)


def _row(found: Row[Any]) -> UsageRow:
    values = dict(found._mapping)  # noqa: SLF001 - public; the dash is against columns' names
    price = Price(values.pop("prompt_per_1k"), values.pop("completion_per_1k"))
    return UsageRow(**values, price=price)


def _sums(rows: Iterable[UsageRow], *, span_s: int) -> list[Mapping[str, object]]:
    """In one order, so that two servers never wait for each other."""
    sums: dict[tuple[float, str, str, str, str], list[int]] = {}
    for row in rows:
        key = (
            row.at // span_s * span_s,
            row.key_id,
            row.user_id or "",
            row.project_id,
            row.served_model,
        )
        known = sums.setdefault(key, [0] * len(SUMMED))
        for position, amount in enumerate(_amounts(row)):
            known[position] += amount
    return [
        {**dict(zip(_KEYS, key, strict=True)), **dict(zip(SUMMED, sums[key], strict=True))}
        for key in sorted(sums)
    ]


def _amounts(row: UsageRow) -> tuple[int, ...]:
    """In the order of ``SUMMED``."""
    return (
        1,
        int(row.outcome == "failed"),
        int(row.outcome == "aborted"),
        int(row.outcome == "lost"),
        int(row.is_estimated),
        row.prompt_tokens,
        row.completion_tokens,
        row.cached_tokens or 0,
        row.cost_micros,
        round(row.latency_ms or 0),  # as it is kept
        int(row.latency_ms is not None),
    )


async def _add(
    connection: AsyncConnection, table: Table, sums: Sequence[Mapping[str, object]]
) -> None:
    if not sums:
        return
    statement = upserting.insert(connection, table)
    grown = {name: table.c[name] + statement.excluded[name] for name in SUMMED}
    await connection.execute(
        statement.on_conflict_do_update(index_elements=list(_KEYS), set_=grown), sums
    )
