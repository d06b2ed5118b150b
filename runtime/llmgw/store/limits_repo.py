"""Limits of organisations, teams, projects and keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Column, Row, select
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain import limits as rules
from llmgw.domain.principals import Level, Scope
from llmgw.domain.stored import AuditEntry
from llmgw.errors import Unknown
from llmgw.store import audit_repo, limit_rows
from llmgw.store.database import Database
from llmgw.store.tables import api_keys, limits, orgs, projects, teams

_PLACES: Mapping[Scope, Column[Any]] = {
    "org": orgs.c.org_id,
    "team": teams.c.team_id,
    "project": projects.c.project_id,
    "key": api_keys.c.key_id,
}


class LimitsRepo:
    """The limits of one store; each change may bring its entry of the log of acts."""

    def __init__(self, database: Database) -> None:
        """Limits of one store."""
        self._database = database

    async def all(self) -> Sequence[Level]:
        """Every place that limits something."""
        query = select(limits).order_by(limits.c.scope, limits.c.scope_id)

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            return (await connection.execute(query)).all()

        return [limit_rows.level(row) for row in await self._database.read(work)]

    async def find(self, scope: Scope, scope_id: str) -> Level:
        """What one place limits; ``Unknown`` where there is no such place."""

        async def work(connection: AsyncConnection) -> Level:
            await _check_place(connection, scope, scope_id)
            (found,) = await limit_rows.read(connection, [(scope, scope_id)])
            return found

        return await self._database.read(work)

    async def change(
        self,
        scope: Scope,
        scope_id: str,
        values: Mapping[str, Any],
        *,
        entry: AuditEntry | None = None,
    ) -> Level:
        """Set these fields of a level and leave the others; absent as a value takes a limit away.

        The entry tells what was before and after. ``Invalid`` for what is no limit, ``Unknown``
        where there is no such place.
        """

        async def work(connection: AsyncConnection) -> Level:
            await _check_place(connection, scope, scope_id, is_locked=True)
            (before,) = await limit_rows.read(connection, [(scope, scope_id)])
            after = replace(before, **values)
            rules.check(after)
            await limit_rows.write(connection, after)
            await audit_repo.write(connection, entry and _told(entry, before, after))
            return after

        return await self._database.write(work)


async def _check_place(
    connection: AsyncConnection, scope: Scope, scope_id: str, *, is_locked: bool = False
) -> None:
    """``is_locked``: of two that change the same place one waits for the other."""
    column = _PLACES.get(scope)
    if column is not None:
        query = select(column).where(column == scope_id)
        query = query.with_for_update() if is_locked else query
        if (await connection.execute(query)).first() is not None:
            return
    raise Unknown(f"there is no {scope} {scope_id!r}; see 'llmgw keys tree' and 'llmgw keys list'")


def _told(entry: AuditEntry, before: Level, after: Level) -> AuditEntry:
    return replace(entry, before=rules.told(before), after=rules.told(after))
