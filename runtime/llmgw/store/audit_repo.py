"""Who did what, or was refused: written once, read by page, gone with its age and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.stored import AuditEntry, AuditFilter
from llmgw.store.database import Database
from llmgw.store.tables import audit

PAGE = 100
"""Entries of one page unless more are asked for."""


async def write(connection: AsyncConnection, entry: AuditEntry | None) -> None:
    """Keep an entry in the transaction of what it tells of; none is kept for ``None``."""
    if entry is not None:
        await connection.execute(insert(audit), _row(entry))


class AuditRepo:
    """The log of administrative acts."""

    def __init__(self, database: Database) -> None:
        """Entries of one store."""
        self._database = database

    async def append(self, entry: AuditEntry) -> None:
        """Keep an entry that goes with no other change, such as a refusal."""

        async def work(connection: AsyncConnection) -> None:
            await write(connection, entry)

        await self._database.write(work)

    async def page(
        self, wanted: AuditFilter | None = None, *, limit: int = PAGE
    ) -> Sequence[AuditEntry]:
        """Entries, the newest first."""
        query = (
            select(audit)
            .where(*_conditions(wanted or AuditFilter()))
            .order_by(audit.c.entry_id.desc())
            .limit(limit)
        )

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            return (await connection.execute(query)).all()

        return [AuditEntry(**row._mapping) for row in await self._database.read(work)]  # noqa: SLF001 - a public name with a dash, so that no column is hidden

    async def prune(self, *, before: float, keep: int | None = None) -> int:
        """Let go of entries older than a time, and of all but the newest ``keep``; how many."""

        async def work(connection: AsyncConnection) -> int:
            newest = (await connection.execute(select(func.max(audit.c.entry_id)))).scalar()
            is_old = audit.c.at < before
            if keep is not None and newest is not None:
                is_old |= audit.c.entry_id <= newest - keep
            return (await connection.execute(delete(audit).where(is_old))).rowcount

        return await self._database.write(work)


def _conditions(wanted: AuditFilter) -> list[ColumnElement[bool]]:
    exact = {"actor": wanted.actor, "action": wanted.action, "target": wanted.target}
    found = [audit.c[name] == value for name, value in exact.items() if value]
    if wanted.since is not None:
        found.append(audit.c.at >= wanted.since)
    if wanted.before_id is not None:
        found.append(audit.c.entry_id < wanted.before_id)
    if wanted.after_id is not None:
        found.append(audit.c.entry_id > wanted.after_id)
    return found


def _row(entry: AuditEntry) -> dict[str, object]:
    names = ("at", "actor", "origin", "action", "target", "outcome", "before", "after")
    return {**{name: getattr(entry, name) for name in names}, "request_id": entry.request_id}
