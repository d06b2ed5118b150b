"""Rolls of models that operators have asked for, until they come to their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.stored import StoredRoll
from llmgw.store import fencing, upserting
from llmgw.store.database import Database
from llmgw.store.tables import rolls


class RollsRepo:
    """The rows of rolls, one a model at most."""

    def __init__(self, database: Database) -> None:
        """Rolls of one store."""
        self._database = database

    async def all(self) -> Sequence[StoredRoll]:
        """Every roll, in the order of their models."""

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            return (await connection.execute(select(rolls).order_by(rolls.c.model))).all()

        found = await self._database.read(work)
        return [StoredRoll(**row._mapping) for row in found]  # noqa: SLF001 - public; the dash is against columns' names

    async def put(self, roll: StoredRoll, *, owner: str = "") -> None:
        """Keep one, in place of the model's last; ``Standby`` unless ``owner`` leads."""
        row = {column.name: getattr(roll, column.name) for column in rolls.columns}

        async def work(connection: AsyncConnection) -> None:
            await fencing.check(connection, owner=owner)
            statement = upserting.insert(connection, rolls).values(row)
            await connection.execute(
                statement.on_conflict_do_update(index_elements=["model"], set_=row)
            )

        await self._database.write(work)

    async def halt(self, model: str, *, reason: str, owner: str = "") -> None:
        """It goes no further; nothing changes where it is not there."""

        async def work(connection: AsyncConnection) -> None:
            await fencing.check(connection, owner=owner)
            halted = update(rolls).where(rolls.c.model == model).values(halted=reason)
            await connection.execute(halted)

        await self._database.write(work)

    async def end(self, model: str, *, owner: str = "") -> None:
        """It has come to its end; nothing changes where it is not there."""

        async def work(connection: AsyncConnection) -> None:
            await fencing.check(connection, owner=owner)
            await connection.execute(delete(rolls).where(rolls.c.model == model))

        await self._database.write(work)
