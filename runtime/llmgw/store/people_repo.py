"""People: who waits for approval, who is in, who was suspended.

A change that takes the way in from somebody ends that one's sessions in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain import people
from llmgw.domain.people import User, UserState
from llmgw.domain.stored import AuditEntry
from llmgw.errors import Conflict, EmailTaken, Invalid, Unknown
from llmgw.store import audit_repo, people_rows, upserting
from llmgw.store.database import Database
from llmgw.store.tables import projects, sessions, users


class PeopleRepo:
    """The people of one store; each change may bring its entry of the log of acts."""

    def __init__(self, database: Database) -> None:
        """People of one store."""
        self._database = database

    async def add(self, user: User, *, entry: AuditEntry | None = None) -> None:
        """Keep a new person; ``EmailTaken``, or ``Conflict`` where its name elsewhere is taken."""

        async def work(connection: AsyncConnection) -> None:
            if user.project_id:
                await _check_project(connection, user.project_id)
            statement = upserting.insert(connection, users).values(people_rows.row_of(user))
            added = statement.on_conflict_do_nothing().returning(users.c.user_id)
            if (await connection.execute(added)).first() is None:
                raise await _taken(connection, user)
            await audit_repo.write(connection, entry)

        await self._database.write(work)

    async def find(self, user_id: str) -> User:
        """One person; ``Unknown`` where there is none of this id."""

        async def work(connection: AsyncConnection) -> User:
            return await _found(connection, user_id)

        return await self._database.read(work)

    async def by_email(self, email: str) -> User | None:
        """Whose address this (normalised) one is."""
        return await self._first(users.c.email == email)

    async def by_subject(self, *, issuer: str, subject: str) -> User | None:
        """Who signs in elsewhere by this name."""
        return await self._first((users.c.issuer == issuer) & (users.c.subject == subject))

    async def all(self, *, state: UserState | None = None) -> Sequence[User]:
        """Everybody, in the order of their addresses."""
        query = select(users).order_by(users.c.email)
        if state is not None:
            query = query.where(users.c.state == str(state))

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            return (await connection.execute(query)).all()

        return [people_rows.user(row) for row in await self._database.read(work)]

    async def approve(
        self, user_id: str, *, project_id: str, by: str, at: float, entry: AuditEntry | None = None
    ) -> User:
        """Make a pending person active in a project; ``Unknown`` person or project.

        ``Conflict`` where it is not pending, ``Invalid`` for an empty project. One that was
        suspended before anybody approved it waits for that still.
        """
        if not project_id:
            raise Invalid("an account is approved into a project: say which")

        async def work(connection: AsyncConnection) -> User:
            before = await _found(connection, user_id)
            is_waiting = before.state is not UserState.ACTIVE and before.approved_at is None
            if not is_waiting:
                raise Conflict(f"{before.email} is {before.state}, so it waits for no approval")
            await _check_project(connection, project_id)
            state = str(UserState.ACTIVE)
            values = {"project_id": project_id, "approved_by": by, "approved_at": at}
            return await _change(connection, before, {**values, "state": state}, entry=entry)

        return await self._database.write(work)

    async def set_state(
        self, user_id: str, state: UserState, *, entry: AuditEntry | None = None
    ) -> User:
        """Suspend or restore; suspending ends every session in the same transaction."""

        async def work(connection: AsyncConnection) -> User:
            before = await _found(connection, user_id)
            _check_step(before, state)
            if state is UserState.SUSPENDED:
                await _end_sessions(connection, user_id)
            return await _change(connection, before, {"state": str(state)}, entry=entry)

        return await self._database.write(work)

    async def set_admin(
        self, user_id: str, *, is_admin: bool, entry: AuditEntry | None = None
    ) -> User:
        """Give or take the flag of an administrator; ``Unknown``."""

        async def work(connection: AsyncConnection) -> User:
            before = await _found(connection, user_id)
            return await _change(connection, before, {"is_admin": is_admin}, entry=entry)

        return await self._database.write(work)

    async def set_password(
        self, user_id: str, password_hash: str, *, entry: AuditEntry | None = None
    ) -> User:
        """Replace the password and end every session in the same transaction; ``Unknown``."""

        async def work(connection: AsyncConnection) -> User:
            before = await _found(connection, user_id)
            await _end_sessions(connection, user_id)
            return await _change(connection, before, {"password_hash": password_hash}, entry=entry)

        return await self._database.write(work)

    async def set_project(
        self, user_id: str, *, project_id: str, entry: AuditEntry | None = None
    ) -> User:
        """Have a person belong to another project; ``Unknown`` person or project."""

        async def work(connection: AsyncConnection) -> User:
            before = await _found(connection, user_id)
            await _check_project(connection, project_id)
            return await _change(connection, before, {"project_id": project_id}, entry=entry)

        return await self._database.write(work)

    async def touch_login(self, user_id: str, *, at: float) -> None:
        """It has just signed in."""

        async def work(connection: AsyncConnection) -> None:
            touched = update(users).where(users.c.user_id == user_id).values(last_login_at=at)
            await connection.execute(touched)

        await self._database.write(work)

    async def _first(self, condition: ColumnElement[bool]) -> User | None:
        async def work(connection: AsyncConnection) -> Row[Any] | None:
            return (await connection.execute(select(users).where(condition))).first()

        row = await self._database.read(work)
        return None if row is None else people_rows.user(row)


async def _found(connection: AsyncConnection, user_id: str) -> User:
    query = select(users).where(users.c.user_id == user_id)
    row = (await connection.execute(query)).first()
    if row is None:
        raise Unknown(f"there is no person {user_id}; see 'llmgw users list'")
    return people_rows.user(row)


async def _taken(connection: AsyncConnection, user: User) -> Conflict:
    query = select(users.c.user_id).where(users.c.email == user.email)
    if (await connection.execute(query)).first() is None:
        return Conflict(f"somebody else signs in as {user.subject} of {user.issuer} already")
    return EmailTaken(f"there is somebody with the address {user.email} already")


async def _check_project(connection: AsyncConnection, project_id: str) -> None:
    query = select(projects.c.project_id).where(projects.c.project_id == project_id)
    if (await connection.execute(query)).first() is None:
        raise Unknown(f"there is no project {project_id!r}; see 'llmgw keys tree'")


def _check_step(before: User, after: UserState) -> None:
    people.check_step(before.state, after, who=before.email)
    if after is UserState.ACTIVE and not before.project_id:
        raise Conflict(f"{before.email} was never approved, so it has no project; approve it")


async def _change(
    connection: AsyncConnection,
    before: User,
    values: Mapping[str, object],
    *,
    entry: AuditEntry | None,
) -> User:
    """Write values to a person who is still in the state that was read."""
    changed = await connection.execute(
        update(users)
        .where(users.c.user_id == before.user_id, users.c.state == str(before.state))
        .values(**values)
        .returning(*users.c)
    )
    row = changed.first()
    if row is None:
        raise Conflict(f"{before.email} was changed meanwhile; look again, then repeat")
    await audit_repo.write(connection, entry)
    return people_rows.user(row)


async def _end_sessions(connection: AsyncConnection, user_id: str) -> None:
    await connection.execute(delete(sessions).where(sessions.c.user_id == user_id))
