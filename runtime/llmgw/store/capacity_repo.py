"""What each way to run a model was measured to carry; a new measurement replaces the old one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.stored import AuditEntry, Capacity
from llmgw.store import audit_repo, upserting
from llmgw.store.database import Database
from llmgw.store.tables import capacity


class CapacityRepo:
    """The measurements, one a model and profile."""

    def __init__(self, database: Database) -> None:
        """Measurements of one store."""
        self._database = database

    async def all(self) -> Sequence[Capacity]:
        """Every measurement, by model and profile."""
        query = select(capacity).order_by(capacity.c.model, capacity.c.profile)

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            return (await connection.execute(query)).all()

        rows = await self._database.read(work)
        return [Capacity(**row._mapping) for row in rows]  # noqa: SLF001 - public

    async def put(self, measured: Capacity, *, entry: AuditEntry | None = None) -> None:
        """Keep a measurement in the place of the last one."""
        row = {column.name: getattr(measured, column.name) for column in capacity.columns}
        values = {name: row[name] for name in ("result", "slo", "measured_at")}

        async def work(connection: AsyncConnection) -> None:
            statement = upserting.insert(connection, capacity).values(row)
            await connection.execute(
                statement.on_conflict_do_update(index_elements=["model", "profile"], set_=values)
            )
            await audit_repo.write(connection, entry)

        await self._database.write(work)

    async def remove(self, model: str) -> int:
        """Let go of all of a model; how many those were."""

        async def work(connection: AsyncConnection) -> int:
            gone = delete(capacity).where(capacity.c.model == model)
            return (await connection.execute(gone)).rowcount

        return await self._database.write(work)
