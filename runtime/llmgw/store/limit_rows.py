"""Rows of limits as levels, for the repositories that read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, and_, delete, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.principals import Level, Scope
from llmgw.store import upserting
from llmgw.store.tables import limits

_KEY = ("scope", "scope_id")


async def read(
    connection: AsyncConnection, places: Sequence[tuple[Scope, str]]
) -> tuple[Level, ...]:
    """The levels of these places in their order; one without a row limits nothing."""
    is_one = [and_(limits.c.scope == scope, limits.c.scope_id == name) for scope, name in places]
    rows = (await connection.execute(select(limits).where(or_(*is_one)))).all()
    found = {(row.scope, row.scope_id): level(row) for row in rows}
    return tuple(found.get(place) or Level(*place) for place in places)


async def write(connection: AsyncConnection, wanted: Level) -> None:
    """Keep a level; one that limits nothing has no row."""
    if not wanted.is_limiting:
        is_it = (limits.c.scope == wanted.scope, limits.c.scope_id == wanted.scope_id)
        await connection.execute(delete(limits).where(*is_it))
        return
    row = {column.name: getattr(wanted, column.name) for column in limits.columns}
    row["models"] = None if wanted.models is None else sorted(wanted.models)
    values = {name: value for name, value in row.items() if name not in _KEY}
    statement = upserting.insert(connection, limits).values(row)
    await connection.execute(
        statement.on_conflict_do_update(index_elements=list(_KEY), set_=values)
    )


def level(row: Row[Any]) -> Level:
    """A level of a row."""
    values = dict(row._mapping)  # noqa: SLF001 - public; the dash is against columns' names
    names = values["models"]
    return Level(**{**values, "models": None if names is None else frozenset(names)})
