"""What jobs tell, in order and once: an event that is written twice is kept once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.jobs import JobEvent
from llmgw.store import upserting
from llmgw.store.database import Database
from llmgw.store.tables import job_events

PAGE = 500
"""Events of one page unless more are asked for."""

_STDOUT_BYTES = 4096


class JobEventsRepo:
    """The events of one store's jobs."""

    def __init__(self, database: Database) -> None:
        """Events of one store."""
        self._database = database

    async def append(self, events: Sequence[JobEvent]) -> None:
        """Keep events; one with a counter that is there already changes nothing."""
        if not events:
            return
        rows = [_row(event) for event in events]

        async def work(connection: AsyncConnection) -> None:
            statement = upserting.insert(connection, job_events).values(rows)
            await connection.execute(statement.on_conflict_do_nothing())

        await self._database.write(work)

    async def page(self, job_id: str, *, after: int = 0, limit: int = PAGE) -> Sequence[JobEvent]:
        """Events of a job after a counter, in order."""
        query = (
            select(job_events)
            .where(job_events.c.job_id == job_id, job_events.c.counter > after)
            .order_by(job_events.c.counter)
            .limit(limit)
        )

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            return (await connection.execute(query)).all()

        return [_event(row) for row in await self._database.read(work)]

    async def prune(self, *, before: float) -> int:
        """Let go of events older than a time; how many those were."""

        async def work(connection: AsyncConnection) -> int:
            gone = delete(job_events).where(job_events.c.at < before)
            return (await connection.execute(gone)).rowcount

        return await self._database.write(work)


def _row(event: JobEvent) -> dict[str, object]:
    duration_ms = None if event.duration_s is None else round(event.duration_s * 1000)
    stdout = event.stdout.encode()[:_STDOUT_BYTES].decode(errors="ignore")
    names = ("job_id", "counter", "at", "event", "host", "play", "task", "status")
    known = {name: getattr(event, name) for name in names}
    return {**known, "stdout": stdout.replace("\0", ""), "duration_ms": duration_ms}


def _event(row: Row[Any]) -> JobEvent:
    values = dict(row._mapping)  # noqa: SLF001 - public; the dash is against columns' names
    duration_ms = values.pop("duration_ms")
    return JobEvent(**values, duration_s=None if duration_ms is None else duration_ms / 1000)
