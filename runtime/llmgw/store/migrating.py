"""Brings a store's schema to the step that this release works on, or says why it cannot.

Called once by ``store.database`` inside one transaction, under a lock of the whole store, so that
two servers that start together do not both make the tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.runtime.migration import MigrationStep
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, delete, insert, inspect, select, text

from llmgw.errors import Conflict
from llmgw.kit import logs
from llmgw.store import tables

EMPTY = "base"
"""The step before the first one: no tables of ours."""

BEING_FILLED = "move-store"
"""A lease of this name marks a store that a move has not filled yet."""

_LOCK = 0x6C6C6D67770001
"""The advisory lock of our schema in PostgreSQL; SQLite's write lock does the same there."""

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Leave:
    """What may be done to a store that is opened."""

    may_change: bool
    """Bring an empty or older one up to date."""
    may_create: bool = False
    """Only an empty one."""
    may_fill: bool = False
    """Go on with a move that has not filled it yet."""


def prepare(connection: Connection, *, shown: str, leave: Leave) -> None:
    """Make sure that the store can be worked with; ``Conflict`` says what to do otherwise."""
    _see_to_schema(connection, shown=shown, leave=leave)
    is_marked = select(tables.leases.c.name).where(tables.leases.c.name == BEING_FILLED)
    if not leave.may_fill and connection.execute(is_marked).first() is not None:
        raise Conflict(
            f"the store {shown} is being filled: run 'llmgw keys move-store' to its end first"
        )


def _see_to_schema(connection: Connection, *, shown: str, leave: Leave) -> None:
    script, current = _script(), _locked_revision(connection)
    head = script.get_current_head() or EMPTY
    if current == head:
        return
    known = {step.revision for step in script.walk_revisions()}
    if current is not None and current not in known:
        _check_newer(connection, shown=shown, current=current, head=head)
        return
    if not (leave.may_change or (leave.may_create and current is None)):
        state = "has no tables yet" if current is None else f"is at schema {current}"
        raise Conflict(
            f"the store {shown} {state}, and this llmgw works on schema {head}; start `llmgw "
            "server` of this version on it once, which brings it there"
        )
    if current is None:
        _check_empty(connection, shown=shown)
    move(connection, to=head)
    _log.info("store_migrated", store=shown, before=current, now=head)


def move(connection: Connection, *, to: str) -> None:
    """Step the schema up or down to a revision, or to ``EMPTY``."""
    script = _script()
    before = MigrationContext.configure(connection).get_current_revision() or EMPTY
    steps = _steps(script, before=before, to=to)
    context = MigrationContext.configure(connection, opts={"fn": lambda _rev, _context: steps})
    with Operations.context(context):
        context.run_migrations()
    if to != EMPTY:
        usable_from: str = script.get_revision(to).module.USABLE_FROM
        connection.execute(delete(tables.schema_facts))
        connection.execute(
            insert(tables.schema_facts), {"revision": to, "usable_from": usable_from}
        )


def _script() -> ScriptDirectory:
    place = Path(__file__).parent / "migrations"
    return ScriptDirectory(str(place), version_locations=[str(place / "versions")])


def _steps(script: ScriptDirectory, *, before: str, to: str) -> list[Any]:
    order = [EMPTY, *(step.revision for step in reversed(list(script.walk_revisions())))]
    first, last = order.index(before), order.index(to)
    going_up = [script.get_revision(name) for name in order[first + 1 : last + 1]]
    going_down = [script.get_revision(name) for name in reversed(order[last + 1 : first + 1])]
    return [*_each(script, going_up, is_up=True), *_each(script, going_down, is_up=False)]


def _each(script: ScriptDirectory, steps: Iterable[Script], *, is_up: bool) -> Iterable[Any]:
    make = MigrationStep.upgrade_from_script if is_up else MigrationStep.downgrade_from_script
    return [make(script.revision_map, step) for step in steps]


def _locked_revision(connection: Connection) -> str | None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    return MigrationContext.configure(connection).get_current_revision()


def _check_newer(connection: Connection, *, shown: str, current: str, head: str) -> None:
    usable_from = connection.execute(select(tables.schema_facts.c.usable_from)).scalar_one()
    if usable_from > head:
        raise Conflict(
            f"the store {shown} is at schema {current}, made by a newer llmgw, and needs one of at "
            f"least schema {usable_from}; this one has {head}: install the newer version"
        )
    _log.info("store_is_newer", store=shown, schema=current, ours=head)


def _check_empty(connection: Connection, *, shown: str) -> None:
    foreign = sorted(set(inspect(connection).get_table_names()) & set(tables.metadata.tables))
    if foreign:
        raise Conflict(
            f"the store {shown} already has a table {foreign[0]!r} that llmgw has not made; give "
            "llmgw a database of its own"
        )
