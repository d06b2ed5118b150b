"""The lease of leadership: taken, renewed and taken over by one and the same statement.

Times are those of the database's clock alone, so servers need not agree on theirs. On SQLite the
taker holds an operating-system lock beside the file as well: that one ends with its process, so
whoever has it need not wait for the lease of a dead one to run out, and nobody else may take it.
So a file that cannot be written, on a full disk or behind another writer, costs nobody the lead.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.stored import Lease
from llmgw.errors import Invalid, LlmgwError
from llmgw.kit import filelocks, logs
from llmgw.store.database import Database
from llmgw.store.fencing import LEADER

_NOW_MS = {
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
}

_TAKE = """
INSERT INTO leases AS held (name, owner, term, address, expires_at)
VALUES (:name, :owner, :above + 1, :address, {now} + :ttl_ms)
ON CONFLICT (name) DO UPDATE SET
  owner = excluded.owner,
  address = excluded.address,
  expires_at = excluded.expires_at,
  term = CASE
    WHEN held.term <= :above THEN excluded.term
    WHEN held.owner = excluded.owner THEN held.term
    ELSE held.term + 1
  END
WHERE held.owner = excluded.owner OR held.expires_at <= {now} OR :has_lock
RETURNING owner, term, address, expires_at - {now} AS left_ms
"""

_HELD = "SELECT owner, term, address, expires_at - {now} AS left_ms FROM leases WHERE name = :name"

_RELEASE = "UPDATE leases SET expires_at = 0 WHERE name = :name AND owner = :owner"

_PATIENCE = 1 / 4
"""The share of a lease for which who has the lock waits for the file to be written."""

_log = logs.get(__name__)


class LeasesRepo:
    """One lease by its name, as one process takes it."""

    def __init__(self, database: Database, *, name: str = LEADER) -> None:
        """The lease of one store."""
        self._database = database
        self._name = name
        path = database.address.path
        self._lock = None if path is None else lock_beside(path)
        self._by_lock: Lease | None = None
        """What was taken with the lock, as long as this process has it."""
        self._complaint = ""

    async def take(
        self, *, owner: str, address: str, ttl_s: float, above_term: int = 0
    ) -> Lease | None:
        """Take or renew it, then tell who holds it: ``owner`` itself, or another one.

        A term that is taken is above ``above_term``, whatever this store remembers.
        ``None`` where no one is known to hold it and it could not be taken.
        """
        has_lock = self._lock is not None and self._lock.take()
        may_take = self._lock is None or has_lock
        given = {
            "name": self._name,
            "owner": owner,
            "address": address,
            "ttl_ms": round(ttl_s * 1000),
            "above": above_term,
            "has_lock": has_lock,
        }

        async def take(connection: AsyncConnection) -> Row[Any] | None:
            return (await connection.execute(_sql(connection, _TAKE), given)).first()

        async def look(connection: AsyncConnection) -> Row[Any] | None:
            held = _sql(connection, _HELD)
            return (await connection.execute(held, {"name": self._name})).first()

        sure = self._sure(owner=owner, above_term=above_term)
        try:
            async with asyncio.timeout(None if sure is None else ttl_s * _PATIENCE):
                row = await self._database.write(take) if may_take else None
                row = row or await self._database.read(look)
        except (LlmgwError, TimeoutError) as error:
            if sure is None:
                raise
            self._complain(str(error) or "it does not answer")
            return replace(sure, left_s=ttl_s)
        self._complaint = ""
        lease = None if row is None else _lease(row)
        self._by_lock = lease if has_lock else None
        return lease

    async def release(self, *, owner: str) -> None:
        """Let go of it at once, where it is ``owner``'s; nobody else's is touched."""

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(text(_RELEASE), {"name": self._name, "owner": owner})

        try:
            await self._database.write(work)
        finally:
            self._by_lock = None
            if self._lock is not None:
                self._lock.release()

    def _sure(self, *, owner: str, above_term: int) -> Lease | None:
        """The lease that is ours whatever the file says: it was, and nobody else has the lock."""
        held = self._by_lock
        return held if held and held.owner == owner and held.term > above_term else None

    def _complain(self, reason: str) -> None:
        """The same trouble is told once."""
        if reason != self._complaint:
            self._complaint = reason
            _log.warning("lease_held_by_its_lock_alone", lease=self._name, reason=reason)


class FileLock:
    """A lock on a file that ends with the process, however that ends."""

    def __init__(self, path: Path) -> None:
        """Not taken yet."""
        self._path = path
        self._fd = -1

    def take(self, *, is_shared: bool = False) -> bool:
        """Whether this process holds it now, alone or with others who share; never waits.

        ``Invalid`` where it cannot be made.
        """
        if self._fd >= 0:
            return True
        try:
            fd = filelocks.open_file(self._path, mode=0o600)
        except OSError as error:
            raise Invalid(
                f"the store's lock {self._path} cannot be opened: {error.strerror}; its folder "
                "must be writable for the user that the server runs as"
            ) from error
        if not filelocks.take(fd, is_shared=is_shared):
            os.close(fd)
            return False
        if not is_shared:
            filelocks.sign(fd)
        self._fd = fd
        return True

    def release(self) -> None:
        """Let the next process have it; releasing twice is allowed."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def lock_beside(path: Path) -> FileLock:
    """What the server that leads on a SQLite file holds as long as it runs; not taken yet."""
    return FileLock(path.with_name(f"{path.name}.lock"))


def use_lock_beside(path: Path) -> FileLock:
    """What servers that only use a SQLite file share, and who moves it must have alone."""
    return FileLock(path.with_name(f"{path.name}.use"))


def _sql(connection: AsyncConnection, statement: str) -> Any:
    return text(statement.format(now=_NOW_MS[connection.dialect.name]))


def _lease(row: Row[Any]) -> Lease:
    return Lease(owner=row.owner, term=row.term, address=row.address, left_s=row.left_ms / 1000)
