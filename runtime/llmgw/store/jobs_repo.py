"""Jobs: queued, started by one process on nodes that no other job has, followed, ended once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Row, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.jobs import Job, JobState
from llmgw.domain.stored import AuditEntry
from llmgw.errors import Conflict, Unknown
from llmgw.store import audit_repo, upserting
from llmgw.store.database import Database
from llmgw.store.tables import jobs, node_claims

PAGE = 50
"""Jobs of one page unless more are asked for."""

_ALIVE = (str(JobState.QUEUED), str(JobState.RUNNING))


class JobsRepo:
    """The jobs of one store; each change may bring its entry of the audit log."""

    def __init__(self, database: Database) -> None:
        """Jobs of one store."""
        self._database = database

    async def queue(self, job: Job, *, entry: AuditEntry | None = None) -> None:
        """Keep a new job; ``Conflict`` where its id is there already."""

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(insert(jobs), _row(job))
            await audit_repo.write(connection, entry)

        await self._database.write(work)

    async def find(self, job_id: str) -> Job:
        """One job; ``Unknown`` where it is not there."""

        async def work(connection: AsyncConnection) -> Job:
            return await _found(connection, job_id)

        return await self._database.read(work)

    async def page(
        self, *, state: JobState | None = None, parent: str = "", limit: int = PAGE
    ) -> Sequence[Job]:
        """Jobs, the newest first."""
        query = select(jobs).order_by(jobs.c.created_at.desc(), jobs.c.job_id).limit(limit)
        if state is not None:
            query = query.where(jobs.c.state == str(state))
        if parent:
            query = query.where(jobs.c.parent == parent)

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            return (await connection.execute(query)).all()

        return [_job(row) for row in await self._database.read(work)]

    async def start(self, job_id: str, *, owner: str, at: float) -> Job:
        """Make a queued job ``owner``'s, and its nodes the job's.

        ``Conflict`` where it is queued no more, or another job works on one of its nodes.
        """

        async def work(connection: AsyncConnection) -> Job:
            job = await _found(connection, job_id)
            changed = await connection.execute(
                update(jobs)
                .where(jobs.c.job_id == job_id, jobs.c.state == str(JobState.QUEUED))
                .values(state=str(JobState.RUNNING), owner=owner, started_at=at, beat_at=at)
            )
            if changed.rowcount == 0:
                raise Conflict(f"job {job_id} is {job.state}, so it cannot be started")
            await _claim(connection, job)
            state = JobState.RUNNING
            return replace(job, state=state, owner=owner, started_at=at, beat_at=at)

        return await self._database.write(work)

    async def beat(self, job_id: str, *, owner: str, at: float) -> bool:
        """Its owner lives; whether somebody has asked for its end. ``Conflict``: not its owner."""

        async def work(connection: AsyncConnection) -> bool:
            changed = await connection.execute(
                update(jobs)
                .where(
                    jobs.c.job_id == job_id,
                    jobs.c.owner == owner,
                    jobs.c.state == str(JobState.RUNNING),
                )
                .values(beat_at=at)
                .returning(jobs.c.is_cancel_requested)
            )
            row = changed.first()
            if row is None:
                raise Conflict(f"job {job_id} is not run by this process any more")
            return bool(row.is_cancel_requested)

        return await self._database.write(work)

    async def finish(
        self,
        job_id: str,
        *,
        state: JobState,
        at: float,
        return_code: int | None = None,
        summary: Mapping[str, object] | None = None,
    ) -> None:
        """End a running job and free its nodes; ``Conflict`` where it has ended already."""
        if not state.is_final:
            raise Conflict(f"job {job_id} cannot end as {state}")

        async def work(connection: AsyncConnection) -> None:
            changed = await connection.execute(
                update(jobs)
                .where(jobs.c.job_id == job_id, jobs.c.state.in_(_ALIVE))
                .values(
                    state=str(state),
                    finished_at=at,
                    return_code=return_code,
                    summary=dict(summary or {}),
                )
            )
            if changed.rowcount == 0:
                job = await _found(connection, job_id)
                raise Conflict(f"job {job_id} has ended already: {job.state}")
            await connection.execute(delete(node_claims).where(node_claims.c.job_id == job_id))

        await self._database.write(work)

    async def cancel(self, job_id: str, *, at: float, entry: AuditEntry | None = None) -> Job:
        """Ask for a job's end: a queued one ends here, a running one by its owner.

        ``Unknown`` job; ``Conflict`` where it has ended already.
        """

        async def work(connection: AsyncConnection) -> Job:
            job = await _found(connection, job_id)
            if job.state.is_final:
                raise Conflict(f"job {job_id} has ended already: {job.state}")
            wanted = replace(job, is_cancel_requested=True)
            if job.state is JobState.QUEUED:
                wanted = replace(wanted, state=JobState.CANCELED, finished_at=at)
            changed = await connection.execute(
                update(jobs)
                .where(jobs.c.job_id == job_id, jobs.c.state == str(job.state))
                .values(
                    is_cancel_requested=True,
                    state=str(wanted.state),
                    finished_at=wanted.finished_at,
                )
            )
            if changed.rowcount == 0:
                raise Conflict(f"job {job_id} went on meanwhile; look again, then repeat")
            await audit_repo.write(connection, entry)
            return wanted

        return await self._database.write(work)

    async def interrupt(self, *, silent_since: float, at: float) -> Sequence[str]:
        """End the running jobs whose owner has been silent; their ids. Their nodes are free."""

        async def work(connection: AsyncConnection) -> Sequence[str]:
            ended = await connection.execute(
                update(jobs)
                .where(
                    jobs.c.state == str(JobState.RUNNING),
                    or_(jobs.c.beat_at.is_(None), jobs.c.beat_at < silent_since),
                )
                .values(state=str(JobState.INTERRUPTED), finished_at=at)
                .returning(jobs.c.job_id)
            )
            names = sorted(row.job_id for row in ended)
            await connection.execute(delete(node_claims).where(node_claims.c.job_id.in_(names)))
            return names

        return await self._database.write(work)

    async def claims(self) -> Mapping[str, str]:
        """Which job works on which node: job ids by node id."""

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            return (await connection.execute(select(node_claims))).all()

        return {row.node_id: row.job_id for row in await self._database.read(work)}


async def _found(connection: AsyncConnection, job_id: str) -> Job:
    row = (await connection.execute(select(jobs).where(jobs.c.job_id == job_id))).first()
    if row is None:
        raise Unknown(f"no job {job_id} is known")
    return _job(row)


async def _claim(connection: AsyncConnection, job: Job) -> None:
    for node_id in sorted(job.targets):  # in one order, so that two never wait for each other
        claim = upserting.insert(connection, node_claims).values(node_id=node_id, job_id=job.job_id)
        claimed = claim.on_conflict_do_nothing().returning(node_claims.c.node_id)
        if (await connection.execute(claimed)).first() is None:
            query = select(node_claims.c.job_id).where(node_claims.c.node_id == node_id)
            other = (await connection.execute(query)).scalar()
            raise Conflict(f"job {other or 'of another kind'} works on node {node_id}")


def _job(row: Row[Any]) -> Job:
    values = dict(row._mapping)  # noqa: SLF001 - public; the dash is against columns' names
    state, targets = JobState(values["state"]), tuple(values["targets"])
    return Job(**{**values, "state": state, "targets": targets})


def _row(job: Job) -> dict[str, object]:
    values = {column.name: getattr(job, column.name) for column in jobs.columns}
    return {**values, "state": str(job.state), "targets": list(job.targets)}
