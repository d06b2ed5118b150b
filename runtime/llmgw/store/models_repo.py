"""Catalog entries that were added at run time, kept exactly as they were written.

Whether an entry is a good one is the catalog's to say, before it is written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.stored import AuditEntry, StoredModel
from llmgw.errors import Conflict, Unknown
from llmgw.store import audit_repo
from llmgw.store.database import Database
from llmgw.store.tables import models


class ModelsRepo:
    """The stored part of the catalog; each change may bring its entry of the audit log."""

    def __init__(self, database: Database) -> None:
        """Entries of one store."""
        self._database = database

    async def all(self) -> Sequence[StoredModel]:
        """Every entry, in the order of their names."""

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            return (await connection.execute(select(models).order_by(models.c.name))).all()

        return [_model(row) for row in await self._database.read(work)]

    async def find(self, name: str) -> StoredModel | None:
        """The entry of a name, where there is one."""

        async def work(connection: AsyncConnection) -> Row[Any] | None:
            return (await connection.execute(select(models).where(models.c.name == name))).first()

        row = await self._database.read(work)
        return None if row is None else _model(row)

    async def add(self, model: StoredModel, *, entry: AuditEntry | None = None) -> None:
        """Keep a new entry; ``Conflict`` where its name is there already."""

        async def work(connection: AsyncConnection) -> None:
            known = select(models.c.name).where(models.c.name == model.name)
            if (await connection.execute(known)).first() is not None:
                raise Conflict(f"the model {model.name} is stored already")
            await connection.execute(insert(models), _row(model))
            await audit_repo.write(connection, entry)

        await self._database.write(work)

    async def change(
        self,
        name: str,
        definition: Mapping[str, object],
        *,
        revision: int,
        at: float,
        entry: AuditEntry | None = None,
    ) -> StoredModel:
        """Write an entry anew; ``revision`` is the one that the change was made from.

        ``Unknown`` where it is not there; ``Conflict`` where it has changed since.
        """

        async def work(connection: AsyncConnection) -> StoredModel:
            changed = await connection.execute(
                update(models)
                .where(models.c.name == name, models.c.revision == revision)
                .values(definition=definition, updated_at=at, revision=revision + 1)
            )
            row = (await connection.execute(select(models).where(models.c.name == name))).first()
            if row is None:
                raise Unknown(f"no model {name} is stored")
            if changed.rowcount == 0:
                raise Conflict(f"the model {name} was changed meanwhile; look again, then repeat")
            await audit_repo.write(connection, entry)
            return _model(row)

        return await self._database.write(work)

    async def remove(self, name: str, *, entry: AuditEntry | None = None) -> None:
        """Let go of an entry; ``Unknown`` where it is not there."""

        async def work(connection: AsyncConnection) -> None:
            gone = await connection.execute(delete(models).where(models.c.name == name))
            if gone.rowcount == 0:
                raise Unknown(f"no model {name} is stored")
            await audit_repo.write(connection, entry)

        await self._database.write(work)


def _model(row: Row[Any]) -> StoredModel:
    return StoredModel(**row._mapping)  # noqa: SLF001 - public; the dash is against columns' names


def _row(model: StoredModel) -> dict[str, object]:
    return {column.name: getattr(model, column.name) for column in models.columns}
