"""Keys that wait for their owners, sealed; each is opened once."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.api_keys import KeyClaim
from llmgw.store.database import Database
from llmgw.store.tables import key_claims


class ClaimsRepo:
    """The links of one store that open keys."""

    def __init__(self, database: Database) -> None:
        """Links of one store."""
        self._database = database

    async def find(self, token_hash: str) -> KeyClaim | None:
        """What a link was made for, opened or not; asking opens nothing."""

        async def work(connection: AsyncConnection) -> Row[Any] | None:
            return (await connection.execute(_named(token_hash))).first()

        row = await self._database.read(work)
        return None if row is None else _claim(row)

    async def open(self, token_hash: str, *, at: float) -> KeyClaim | None:
        """Take what is sealed, once: of two that press at the same time one gets nothing."""

        async def work(connection: AsyncConnection) -> KeyClaim | None:
            row = (await connection.execute(_named(token_hash))).first()
            if row is None or not (claim := _claim(row)).is_open(at):
                return None
            taken = await connection.execute(
                update(key_claims)
                .where(
                    key_claims.c.token_hash == token_hash,
                    key_claims.c.claimed_at.is_(None),
                    key_claims.c.sealed != b"",
                    key_claims.c.expires_at > at,
                )
                .values(claimed_at=at, sealed=b"")
            )
            return claim if taken.rowcount else None

        return await self._database.write(work)

    async def prune(self, *, now: float) -> int:
        """Empty what nobody fetched in time; how many those were."""

        async def work(connection: AsyncConnection) -> int:
            is_late = (key_claims.c.expires_at <= now, key_claims.c.sealed != b"")
            emptied = update(key_claims).where(*is_late).values(sealed=b"")
            return (await connection.execute(emptied)).rowcount

        return await self._database.write(work)


def _named(token_hash: str) -> Any:
    return select(key_claims).where(key_claims.c.token_hash == token_hash)


def _claim(row: Row[Any]) -> KeyClaim:
    return KeyClaim(**row._mapping)  # noqa: SLF001 - public; the dash is against columns' names
