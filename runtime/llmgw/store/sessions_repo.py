"""Browsers that are signed in."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Row, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.people import Session, User, UserState
from llmgw.errors import Conflict
from llmgw.store import people_rows
from llmgw.store.database import Database
from llmgw.store.tables import sessions, users

_IS_ACTIVE = users.c.state == str(UserState.ACTIVE)


class SessionsRepo:
    """The sessions of one store."""

    def __init__(self, database: Database) -> None:
        """Sessions of one store."""
        self._database = database

    async def add(self, session: Session) -> None:
        """Keep a new one; ``Conflict`` where its person was suspended meanwhile."""
        row = {column.name: getattr(session, column.name) for column in sessions.columns}

        async def work(connection: AsyncConnection) -> None:
            who = select(users.c.user_id).where(users.c.user_id == session.user_id, _IS_ACTIVE)
            # Whoever suspends it waits for this, and then finds the session.
            if (await connection.execute(who.with_for_update(read=True))).first() is None:
                raise Conflict(f"the person {session.user_id} is not active, so it cannot sign in")
            await connection.execute(insert(sessions), row)

        await self._database.write(work)

    async def find(self, token_hash: str, *, now: float) -> tuple[Session, User] | None:
        """A session that has not run out, of a person who is active; nothing otherwise."""
        query = (
            select(sessions, users)
            .join(users, sessions.c.user_id == users.c.user_id)
            .where(sessions.c.token_hash == token_hash, sessions.c.expires_at > now, _IS_ACTIVE)
        )

        async def work(connection: AsyncConnection) -> Row[Any] | None:
            return (await connection.execute(query)).first()

        row = await self._database.read(work)
        return None if row is None else (_session(row), people_rows.user(row))

    async def touch(self, token_hash: str, *, at: float) -> None:
        """It was just used."""

        async def work(connection: AsyncConnection) -> None:
            used = update(sessions).where(sessions.c.token_hash == token_hash)
            await connection.execute(used.values(last_seen_at=at))

        await self._database.write(work)

    async def remove(self, token_hash: str) -> None:
        """End one; nothing happens where it has ended."""
        await self._delete(sessions.c.token_hash == token_hash)

    async def remove_all(self, user_id: str) -> None:
        """End all of one person."""
        await self._delete(sessions.c.user_id == user_id)

    async def prune(self, *, now: float) -> int:
        """Let go of those that have run out; how many those were."""
        return await self._delete(sessions.c.expires_at <= now)

    async def _delete(self, condition: ColumnElement[bool]) -> int:
        async def work(connection: AsyncConnection) -> int:
            return (await connection.execute(delete(sessions).where(condition))).rowcount

        return await self._database.write(work)


def _session(row: Row[Any]) -> Session:
    return Session(**{c.name: row._mapping[c] for c in sessions.columns})  # noqa: SLF001 - public; the dash is against columns' names
