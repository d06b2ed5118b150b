"""Catalog entries that were added at run time, kept exactly as they were written.

Whether an entry is a good one is the catalog's to say, before it is written here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, Select, Text, cast, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.stored import ModelEdit, StoredModel
from llmgw.errors import Conflict
from llmgw.store import fencing
from llmgw.store.database import Database
from llmgw.store.tables import models

_AS_TEXT: Select[Any] = select(
    *(column for column in models.c if column is not models.c.definition),
    cast(models.c.definition, Text).label("definition"),
).order_by(models.c.name)


class ModelsRepo:
    """The stored part of the catalog."""

    def __init__(self, database: Database) -> None:
        """Entries of one store."""
        self._database = database

    async def all(self) -> Sequence[StoredModel]:
        """Every entry, in the order of their names."""

        async def work(connection: AsyncConnection) -> list[Row[Any]]:
            return list(await connection.execute(_AS_TEXT))

        return [_model(row) for row in await self._database.read(work)]

    async def apply(
        self, edits: Sequence[ModelEdit], *, actor: str, at: float, owner: str = ""
    ) -> None:
        """Write all of these changes, or nothing; ``actor`` adds what is new.

        ``Standby`` unless ``owner`` leads.

        ``Conflict`` where an entry is not any more what its change was made from.
        """

        async def work(connection: AsyncConnection) -> None:
            await fencing.check(connection, owner=owner)
            # Names that go are free for those that come.
            for edit in sorted(edits, key=lambda one: one.definition is not None):
                await _write(connection, edit, actor=actor, at=at)

        await self._database.write(work)


async def _write(connection: AsyncConnection, edit: ModelEdit, *, actor: str, at: float) -> None:
    if edit.before is None:
        known = select(models.c.name).where(models.c.name == edit.name)
        if (await connection.execute(known)).first() is not None:
            raise Conflict(f"the model {edit.name} was added meanwhile; look again, then repeat")
        times = {"created_at": at, "updated_at": at}
        row = {"name": edit.name, "definition": edit.definition, "actor": actor, "revision": 1}
        await connection.execute(insert(models), {**row, **times})
        return
    revision = edit.before.revision
    is_same = (models.c.name == edit.name, models.c.revision == revision)
    changed = await connection.execute(
        delete(models).where(*is_same)
        if edit.definition is None
        else update(models)
        .where(*is_same)
        .values(definition=edit.definition, updated_at=at, revision=revision + 1)
    )
    if changed.rowcount == 0:
        raise Conflict(f"the model {edit.name} was changed meanwhile; look again, then repeat")


def _model(row: Row[Any]) -> StoredModel:
    columns = dict(row._mapping)  # noqa: SLF001 - public; the dash is against columns' names
    return StoredModel(**{**columns, "definition": _read(columns["definition"])})


def _read(text: str) -> Mapping[str, object] | str:
    """A definition; one that somebody has damaged must not hide the others."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text
