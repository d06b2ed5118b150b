"""Turns errors of the databases into ours: what failed, on which store, what to do; pure.

PostgreSQL gives no code for what fails before a session begins, so those are known by words of its
library, which are not translated with ``lc_messages`` of the server.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import TypeAlias

import psycopg
from sqlalchemy import exc

from llmgw.config.store_address import StoreAddress
from llmgw.errors import (
    Conflict,
    DeadlinePassed,
    Denied,
    Internal,
    Invalid,
    LlmgwError,
    Unavailable,
    Unreachable,
)

Table: TypeAlias = tuple[tuple[str, type[LlmgwError], str], ...]
"""What an error is known by, what it becomes, and the rest of the sentence."""

_SQLITE: Table = (
    (
        r"unable to open database file",
        Invalid,
        (
            "cannot be opened; its folder must be there and "
            "writable for the user that the server runs as, with room on the disk"
        ),
    ),
    (
        r"readonly database|attempt to write",
        Denied,
        ("may not be written; give the file and its folder to the user that the server runs as"),
    ),
    (r"is not a database|encrypted", Invalid, "is no SQLite database; name another file"),
    (
        r"already exists",
        Conflict,
        "has a table that llmgw has not made; give llmgw a database of its own",
    ),
    (r"malformed", Internal, "is damaged; put the last copy of it in its place"),
    (r"disk is full", Unavailable, "has no room on its disk; make some"),
    (
        r"disk I/O error",
        Unavailable,
        ("cannot be read or written: its disk fails; see the kernel's log"),
    ),
    (r"locked", Unavailable, "is busy with another writer; try again"),
)

_CONNECTING: Table = (
    (
        r"password authentication failed|no password supplied",
        Denied,
        ("refuses the password or the user; check both in the store's address"),
    ),
    (
        r"no pg_hba\.conf entry",
        Denied,
        ("lets nobody in from this host as that user; add a line to its pg_hba.conf"),
    ),
    (r"role \".*\" does not exist", Denied, "knows no such user; create it (CREATE ROLE)"),
    (
        r"database \".*\" does not exist",
        Invalid,
        ("has no such database; create it (CREATE DATABASE)"),
    ),
    (
        r"too many clients|remaining connection slots",
        Unavailable,
        (
            "has no connection left; lower "
            "auth.store_connections of all servers or raise its max_connections"
        ),
    ),
    (
        r"starting up|shutting down|in recovery",
        Unreachable,
        ("is starting or stopping; it is tried again"),
    ),
    (
        r"could not translate host name|Name or service|resolve",
        Unreachable,
        ("has a host name that nobody knows; check the store's address"),
    ),
    (
        r"SSL|certificate",
        Denied,
        ("and we do not agree on TLS; check sslmode and sslrootcert in the store's address"),
    ),
    (
        r"invalid (connection option|URI|integer|port|sslmode)|missing \"=\"",
        Invalid,
        ("has an address that PostgreSQL's library cannot read; check its options"),
    ),
)

_STATES: Table = (
    ("57014", DeadlinePassed, "took longer than auth.store_timeout_s; see what it is busy with"),
    ("55P03", DeadlinePassed, "kept a row locked for longer than auth.store_timeout_s"),
    ("53100", Unavailable, "has no room on its disk; make some"),
    (
        "53300",
        Unavailable,
        (
            "has no connection left; lower auth.store_connections of all servers "
            "or raise its max_connections"
        ),
    ),
    (
        "25006",
        Unavailable,
        (
            "takes no writes: it is a copy of another server; name the first one, "
            "or all with target_session_attrs=read-write"
        ),
    ),
    ("42501", Denied, "does not let its user do that; make that user the owner of the database"),
    ("42P07", Conflict, "has a table that llmgw has not made; give llmgw a database of its own"),
    ("42P01", Conflict, "lacks a table; its schema was changed by somebody else"),
    ("42703", Conflict, "lacks a column; its schema was changed by somebody else"),
    ("57P", Unreachable, "is stopping or starting; it is tried again"),
    ("40", Unavailable, "was changed by two at once; try again"),
    ("23", Conflict, "holds such a thing already"),
)


def translated(error: BaseException, *, address: StoreAddress) -> LlmgwError:
    """Ours for one of theirs."""
    ours = _ours(error, address)
    ours.names_the_store = address.shown in ours.message
    return ours


def _ours(error: BaseException, address: StoreAddress) -> LlmgwError:
    for cause in _causes(error):
        if isinstance(cause, sqlite3.Error):
            return _of_sqlite(cause, address)
        if isinstance(cause, psycopg.Error):
            return _of_postgresql(cause, address)
        if isinstance(cause, UnicodeEncodeError):
            return Invalid("a text that is not UTF-8 is neither kept nor found in the store")
    if isinstance(error, exc.TimeoutError):
        return Unavailable(
            f"the store {address.shown}: all connections are in use; raise auth.store_connections"
        )
    if isinstance(error, (exc.DBAPIError, OSError)):
        return Unreachable(f"the store {address.shown} does not answer; it is tried again")
    return Internal(f"the store {address.shown}: {type(error).__name__}, our own fault")


def is_passing(error: BaseException) -> bool:
    """Whether the same transaction may succeed when it is done again at once."""
    for cause in _causes(error):
        if isinstance(cause, psycopg.Error):
            return (cause.sqlstate or "")[:2] == "40"
        if isinstance(cause, sqlite3.OperationalError):
            return getattr(cause, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY_SNAPSHOT
    return False


def is_of_a_reader(error: BaseException) -> bool:
    """Whether a connection may only read, as SQLite's do that find a file they may not write."""
    return any(
        isinstance(cause, sqlite3.OperationalError)
        and getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY
        for cause in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None:
            return
        yield seen
        seen = getattr(seen, "orig", None) or seen.__cause__


def _of_sqlite(error: sqlite3.Error, address: StoreAddress) -> LlmgwError:
    if isinstance(error, sqlite3.IntegrityError):
        return Conflict(f"the store {address.shown} holds such a thing already")
    for words, kind, told in _SQLITE:
        if re.search(words, str(error)):
            return kind(f"the store {address.shown} {told}")
    return Internal(f"the store {address.shown}: {error}")


def _of_postgresql(error: psycopg.Error, address: StoreAddress) -> LlmgwError:
    state = error.sqlstate or ""
    for prefix, kind, told in _STATES:
        if state.startswith(prefix):
            return kind(f"the store {address.shown} {told}")
    if state and not isinstance(error, psycopg.OperationalError):
        return Internal(f"the store {address.shown}: error {state}, our own fault")
    for words, kind, told in _CONNECTING:
        if re.search(words, str(error)):
            return kind(f"the store {address.shown} {told}")
    return Unreachable(
        f"the store {address.shown} does not answer; check that it runs and that this host reaches "
        "it; it is tried again"
    )
