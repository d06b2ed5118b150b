"""One store, opened: transactions that are bounded, done again where that helps, and translated.

Repositories give it a piece of work on one connection; it knows no table. Load, work, apply:
a piece of work asks nothing of the network and may be run twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo
from sqlalchemy import event, exc
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from llmgw.config.store_address import StoreAddress
from llmgw.errors import DeadlinePassed, Invalid, LlmgwError, Unreachable
from llmgw.kit import logs
from llmgw.store import migrating, translating
from llmgw.store.migrating import Leave

BUSY_S = 5.0
"""How long SQLite waits for another writer."""

_TRIES = 4
_SLACK_S = 1.0
"""The server's own bound comes first; then the connection is cut."""
_IS_WRITE = "llmgw_is_write"

_T = TypeVar("_T")
Work = Callable[[AsyncConnection], Awaitable[_T]]

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Sizing:
    """What a store may take: connections, and seconds of one transaction."""

    connections: int = 8
    timeout_s: float = 5.0


class Database:
    """A SQLite file or a PostgreSQL database; nothing is opened before ``open``."""

    def __init__(self, address: StoreAddress, *, sizing: Sizing | None = None) -> None:
        """Keep where it is; ``sizing`` bounds what it takes."""
        self.address = address
        self._sizing = sizing or Sizing()
        self._engine: AsyncEngine | None = None
        self._is_prepared = False
        self._opening = asyncio.Lock()
        self._file: tuple[int, int] | None = None
        """Which file it was when it was opened."""
        self._cut: set[asyncio.Task[Any]] = set()
        """Transactions that nobody waits for any more."""

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of this machine."""
        return self.address.path is not None

    async def open(
        self, *, may_migrate: bool, may_create: bool = False, may_fill: bool = False
    ) -> None:
        """Connect and see to the schema; once it has succeeded, calls cost nothing.

        ``may_create`` makes the tables of an empty store, and changes none that are there;
        ``may_fill`` opens one that a move has not filled yet.
        Raises what ``store.translating`` tells, and ``Conflict`` for a schema that does not fit.
        """
        async with self._opening:
            if self._is_prepared:
                return
            if self._engine is None:
                self._engine = self._made()

            async def see(connection: AsyncConnection) -> None:
                leave = Leave(may_change=may_migrate, may_create=may_create, may_fill=may_fill)
                await connection.run_sync(migrating.prepare, shown=self.address.shown, leave=leave)

            await self._run(see, is_write=True)
            self._is_prepared = True
            _log.info("store_opened", store=self.address.shown)

    async def close(self) -> None:
        """Leave; a transaction that is under way is cut.

        One that was cut before and waits in its driver's thread is waited for: whoever ends the
        event loop under it would wait for ever.
        """
        if self._cut:
            await asyncio.wait(self._cut, timeout=BUSY_S + _SLACK_S)
        engine, self._engine, self._is_prepared = self._engine, None, False
        if engine is not None:
            await engine.dispose()

    async def read(self, work: Work[_T]) -> _T:
        """Run ``work`` in a transaction that sees one state of the store."""
        return await self._run(work, is_write=False)

    async def write(self, work: Work[_T]) -> _T:
        """Run ``work`` in a transaction that holds all it did, or nothing."""
        return await self._run(work, is_write=True)

    async def _run(self, work: Work[_T], *, is_write: bool) -> _T:
        for attempt in range(_TRIES):
            try:
                return await self._bounded(work, is_write=is_write)
            except LlmgwError:
                raise
            except (exc.SQLAlchemyError, psycopg.Error, OSError, UnicodeEncodeError) as error:
                if attempt == _TRIES - 1 or not translating.is_passing(error):
                    raise translating.translated(error, address=self.address) from error
            await asyncio.sleep(0.01 * 2**attempt)
        raise AssertionError  # the last attempt raised

    async def _bounded(self, work: Work[_T], *, is_write: bool) -> _T:
        """One transaction, ended by force where the server does not end it itself.

        The driver waits for a server that is asked to cancel, and one that stands still never
        answers; its socket is cut instead.
        """
        sockets: list[int] = []
        task = asyncio.create_task(
            self._transaction(work, is_write=is_write, sockets=sockets), name="store.transaction"
        )
        try:
            bound_s = self._sizing.timeout_s + _SLACK_S + (BUSY_S if self.is_sqlite else 0)
            done, _ = await asyncio.wait({task}, timeout=bound_s)
        finally:
            if not task.done():
                self._cut.add(task)
                task.add_done_callback(self._cut.discard)
                await _end(task, sockets)
        if not done:
            raise DeadlinePassed(
                f"the store {self.address.shown} did not answer within "
                f"{self._sizing.timeout_s:g} s (auth.store_timeout_s)"
            )
        return task.result()

    async def _transaction(self, work: Work[_T], *, is_write: bool, sockets: list[int]) -> _T:
        if self._engine is None:
            raise Unreachable(f"the store {self.address.shown} is not open")
        self._check_file()
        async with self._engine.connect() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            if isinstance(driver, psycopg.AsyncConnection):
                sockets.append(driver.fileno())
            await connection.execution_options(**{_IS_WRITE: is_write})
            try:
                async with connection.begin():
                    return await work(connection)
            except exc.OperationalError as error:
                if translating.is_of_a_reader(error):  # it was opened so, and would stay so
                    await connection.invalidate()
                raise

    def _check_file(self) -> None:
        """``Unreachable`` where the file was taken away: what is written to it now is lost."""
        if self._file is not None and _which(self.address) != self._file:
            raise Unreachable(
                f"the store {self.address.shown} is another file than the one that was opened, or "
                "none; put that one back, or start the server anew"
            )

    def _made(self) -> AsyncEngine:
        pool: dict[str, Any] = {
            "pool_size": self._sizing.connections,
            "max_overflow": 0,
            "pool_timeout": self._sizing.timeout_s,
            "hide_parameters": True,
        }
        if self.address.path is None:
            return create_async_engine(
                "postgresql+psycopg://", async_creator=self._dial, pool_pre_ping=True, **pool
            )
        _make_file(self.address)
        self._file = _which(self.address)
        engine = create_async_engine(f"sqlite+aiosqlite:///{self.address.path}", **pool)
        event.listen(engine.sync_engine, "connect", _set_up_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
        return engine

    async def _dial(self, *_args: object, **_options: object) -> psycopg.AsyncConnection[Any]:
        given = conninfo.conninfo_to_dict(self.address.url)
        timeout_ms = round(self._sizing.timeout_s * 1000)
        bounds = (
            f"-c statement_timeout={timeout_ms} -c lock_timeout={timeout_ms} "
            f"-c idle_in_transaction_session_timeout={2 * timeout_ms}"
        )
        ours: dict[str, Any] = {
            "application_name": "llmgw",
            "connect_timeout": max(2, round(self._sizing.timeout_s)),
            "tcp_user_timeout": timeout_ms,
            **given,
            "options": f"{bounds} {given.get('options') or ''}".strip(),
        }
        return await psycopg.AsyncConnection.connect(**ours)


async def _end(task: asyncio.Task[Any], sockets: list[int]) -> None:
    for number in sockets:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as wire:
            wire.shutdown(socket.SHUT_RDWR)
    task.cancel()
    await asyncio.wait({task}, timeout=_SLACK_S)
    if task.done() and not task.cancelled():
        task.exception()  # said by the bound that it missed


def _make_file(address: StoreAddress) -> None:
    """The file must be ours alone before SQLite writes the first byte."""
    path = address.path
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise Invalid(
            f"the store {address.shown} cannot be opened: {error.strerror}; its folder must be "
            "writable for the user that the server runs as"
        ) from error


def _which(address: StoreAddress) -> tuple[int, int] | None:
    """The identity of a file; nothing where there is none."""
    if address.path is None:
        return None
    try:
        found = address.path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def _set_up_sqlite(connection: DBAPIConnection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin below
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout={round(BUSY_S * 1000)}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Any) -> None:
    """A writer takes the lock at once: taking it later can fail however long it waits."""
    is_write = connection.get_execution_options().get(_IS_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")
