"""Keys of programs: found by the hash of their secret, with all that is above them.

A revoked key stays, since usage tells of it; a rotated one stays the same key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, bindparam, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.api_keys import ApiKey, KeyChain, KeyClaim
from llmgw.domain.principals import Level
from llmgw.domain.stored import AuditEntry
from llmgw.errors import Conflict, Unknown
from llmgw.store import audit_repo, limit_rows
from llmgw.store.database import Database
from llmgw.store.tables import api_keys, key_claims, projects, teams, users


class KeysRepo:
    """The keys of one store; each change may bring its entry of the log of acts."""

    def __init__(self, database: Database) -> None:
        """Keys of one store."""
        self._database = database

    async def add(
        self,
        key: ApiKey,
        *,
        claim: KeyClaim | None = None,
        limits: Level | None = None,
        entry: AuditEntry | None = None,
    ) -> None:
        """Keep a new key, its link and its limits; ``Unknown`` project or person."""

        async def work(connection: AsyncConnection) -> None:
            await _check_project(connection, key.project_id)
            await _check_user(connection, key.user_id)
            await connection.execute(insert(api_keys), _row(key))
            if claim is not None:
                await connection.execute(insert(key_claims), _claim_row(claim))
            if limits is not None:
                await limit_rows.write(connection, limits)
            await audit_repo.write(connection, entry)

        await self._database.write(work)

    async def find(self, key_id: str) -> ApiKey:
        """One key; ``Unknown`` where there is none of this id."""

        async def work(connection: AsyncConnection) -> ApiKey:
            return await _found(connection, key_id)

        return await self._database.read(work)

    async def all(
        self, *, project_id: str = "", user_id: str = "", prefix: str = ""
    ) -> Sequence[ApiKey]:
        """Keys, the oldest first, revoked ones too; of one project, person or prefix."""
        query = select(api_keys).order_by(api_keys.c.created_at, api_keys.c.key_id)
        wanted = {"project_id": project_id, "user_id": user_id, "prefix": prefix}
        query = query.where(*(api_keys.c[name] == one for name, one in wanted.items() if one))

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            return (await connection.execute(query)).all()

        return [_key(row) for row in await self._database.read(work)]

    async def chain(self, key_hash: str, *, now: float) -> KeyChain | None:
        """The key with this hash, or that had it until a time to come, and what is above it."""
        return await self._chain(_has_hash(key_hash, now=now), key_hash=key_hash)

    async def chain_of(self, key_id: str) -> KeyChain | None:
        """The key of an id and what is above it."""
        return await self._chain(api_keys.c.key_id == key_id, key_hash="")

    async def revoke(self, key_id: str, *, at: float, entry: AuditEntry | None = None) -> ApiKey:
        """Let it open nothing any more, its link neither; a revoked one stays as it is."""

        async def work(connection: AsyncConnection) -> ApiKey:
            key = await _found(connection, key_id)
            if key.revoked_at is not None:
                return key
            await _forget_claims(connection, key_id)
            return await _change(connection, key_id, {"revoked_at": at}, entry=entry)

        return await self._database.write(work)

    async def rotate(
        self,
        before: ApiKey,
        after: ApiKey,
        *,
        claim: KeyClaim | None = None,
        entry: AuditEntry | None = None,
    ) -> ApiKey:
        """Give a key another secret; ``Conflict`` where it is not any more what was read."""
        values = {
            name: getattr(after, name)
            for name in ("key_hash", "prefix", "previous_hash", "previous_until", "expires_at")
        }

        async def work(connection: AsyncConnection) -> ApiKey:
            await _forget_claims(connection, before.key_id)
            if claim is not None:
                await connection.execute(insert(key_claims), _claim_row(claim))
            is_same = (api_keys.c.key_hash == before.key_hash) & api_keys.c.revoked_at.is_(None)
            return await _change(connection, before.key_id, values, only=is_same, entry=entry)

        return await self._database.write(work)

    async def move(
        self, key_id: str, *, project_id: str, entry: AuditEntry | None = None
    ) -> ApiKey:
        """Put a key into another project, with what it used; ``Unknown`` key or project."""

        async def work(connection: AsyncConnection) -> ApiKey:
            await _found(connection, key_id)
            await _check_project(connection, project_id)
            return await _change(connection, key_id, {"project_id": project_id}, entry=entry)

        return await self._database.write(work)

    async def touch(self, used_at: Mapping[str, float]) -> None:
        """When keys were used last, many at once; an older time changes nothing."""
        if not used_at:
            return
        when = bindparam("used_at", type_=api_keys.c.last_used_at.type)
        is_older = or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < when)
        touched = (
            update(api_keys)
            .where(api_keys.c.key_id == bindparam("key"), is_older)
            .values(last_used_at=when)
        )
        # In one order, so that two servers never wait for each other.
        rows = [{"key": name, "used_at": at} for name, at in sorted(used_at.items())]

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(touched, rows)

        await self._database.write(work)

    async def _chain(self, condition: ColumnElement[bool], *, key_hash: str) -> KeyChain | None:
        query = (
            select(api_keys, teams.c.team_id, teams.c.org_id)
            .join(projects, projects.c.project_id == api_keys.c.project_id)
            .join(teams, teams.c.team_id == projects.c.team_id)
            .where(condition)
        )

        async def work(connection: AsyncConnection) -> KeyChain | None:
            row = (await connection.execute(query)).first()
            if row is None:
                return None
            key = _key(row)
            levels = await limit_rows.read(
                connection,
                [
                    ("org", row.org_id),
                    ("team", row.team_id),
                    ("project", key.project_id),
                    ("key", key.key_id),
                ],
            )
            return KeyChain(
                key,
                team_id=row.team_id,
                org_id=row.org_id,
                levels=levels,
                is_previous=bool(key_hash) and key.key_hash != key_hash,
            )

        return await self._database.read(work)


def _has_hash(key_hash: str, *, now: float) -> ColumnElement[bool]:
    was = and_(api_keys.c.previous_hash == key_hash, api_keys.c.previous_until > now)
    return or_(api_keys.c.key_hash == key_hash, was)


async def _found(connection: AsyncConnection, key_id: str) -> ApiKey:
    query = select(api_keys).where(api_keys.c.key_id == key_id)
    row = (await connection.execute(query)).first()
    if row is None:
        raise Unknown(f"there is no key {key_id!r}; see 'llmgw keys list'")
    return _key(row)


async def _check_project(connection: AsyncConnection, project_id: str) -> None:
    query = select(projects.c.project_id).where(projects.c.project_id == project_id)
    if (await connection.execute(query)).first() is None:
        raise Unknown(f"there is no project {project_id!r}; see 'llmgw keys tree'")


async def _check_user(connection: AsyncConnection, user_id: str | None) -> None:
    query = select(users.c.user_id).where(users.c.user_id == user_id)
    if user_id is not None and (await connection.execute(query)).first() is None:
        raise Unknown(f"there is no person {user_id!r}; see 'llmgw users list'")


async def _change(
    connection: AsyncConnection,
    key_id: str,
    values: Mapping[str, object],
    *,
    only: ColumnElement[bool] | None = None,
    entry: AuditEntry | None,
) -> ApiKey:
    statement = update(api_keys).where(api_keys.c.key_id == key_id).values(**values)
    statement = statement if only is None else statement.where(only)
    row = (await connection.execute(statement.returning(*api_keys.c))).first()
    if row is None:
        raise Conflict(
            f"the key {key_id} was changed or revoked meanwhile; look again, then repeat"
        )
    await audit_repo.write(connection, entry)
    return _key(row)


async def _forget_claims(connection: AsyncConnection, key_id: str) -> None:
    forgotten = update(key_claims).where(key_claims.c.key_id == key_id).values(sealed=b"")
    await connection.execute(forgotten)


def _key(row: Row[Any]) -> ApiKey:
    return ApiKey(**{c.name: row._mapping[c] for c in api_keys.columns})  # noqa: SLF001 - public; the dash is against columns' names


def _row(key: ApiKey) -> dict[str, object]:
    return {column.name: getattr(key, column.name) for column in api_keys.columns}


def _claim_row(claim: KeyClaim) -> dict[str, object]:
    return {column.name: getattr(claim, column.name) for column in key_claims.columns}
