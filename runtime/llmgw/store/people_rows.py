"""Rows of people as values, for the repositories that read them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from llmgw.domain.people import User, UserState
from llmgw.store.tables import users

_EMPTY_IS_NULL = frozenset({"project_id", "issuer", "subject"})
"""So that a project must exist, and several people may sign in nowhere else."""


def user(row: Row[Any]) -> User:
    """A person of a row that holds every column of ``users``."""
    values = {column.name: row._mapping[column] for column in users.columns}  # noqa: SLF001 - public; the dash is against columns' names
    for name in _EMPTY_IS_NULL:
        values[name] = values[name] or ""
    return User(**{**values, "state": UserState(values["state"])})


def row_of(person: User) -> dict[str, object]:
    """The columns of a person."""
    values = {column.name: getattr(person, column.name) for column in users.columns}
    for name in _EMPTY_IS_NULL:
        values[name] = values[name] or None
    return {**values, "state": str(person.state)}
