"""INSERT … ON CONFLICT for both databases, which have it alike and name it apart."""

from __future__ import annotations

from typing import TypeAlias

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

Insert: TypeAlias = sqlite.Insert | postgresql.Insert


def insert(connection: AsyncConnection, table: Table) -> Insert:
    """An INSERT of the connection's database that can be told what to do on a conflict."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)
