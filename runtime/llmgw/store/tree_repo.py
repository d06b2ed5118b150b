"""The tree of organisations, teams and projects."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain import tenancy
from llmgw.domain.principals import Scope
from llmgw.domain.stored import AuditEntry
from llmgw.domain.tenancy import Org, Place, Project, Team, Tree
from llmgw.errors import Conflict, Unknown
from llmgw.store import audit_repo, upserting
from llmgw.store.database import Database
from llmgw.store.tables import orgs, projects, teams


class TreeRepo:
    """The tree of one store; each change may bring its entry of the log of acts."""

    def __init__(self, database: Database) -> None:
        """Places of one store."""
        self._database = database

    async def read(self) -> Tree:
        """All of it, as it was at one moment."""

        async def work(connection: AsyncConnection) -> Tree:
            return await _read(connection)

        return await self._database.read(work)

    async def add(self, place: Place, *, entry: AuditEntry | None = None) -> None:
        """Keep a new place; ``Conflict`` where its name is taken, ``Unknown`` what is above it."""

        async def work(connection: AsyncConnection) -> None:
            _check_above(await _read(connection), place)
            if not await _insert(connection, place):
                raise Conflict(
                    f"there is a {_word(place)} {place.name!r} in the same place already"
                )
            await audit_repo.write(connection, entry)

        await self._database.write(work)

    async def found(
        self, org: Org, team: Team, project: Project, *, entry: AuditEntry | None = None
    ) -> bool:
        """Make sure of these three by their ids, with these names; whether anything changed."""

        async def work(connection: AsyncConnection) -> bool:
            changes = [await _named(connection, place) for place in (org, team, project)]
            if any(changes):
                await audit_repo.write(connection, entry)
            return any(changes)

        return await self._database.write(work)

    async def rename(
        self, scope: Scope, place_id: str, name: str, *, entry: AuditEntry | None = None
    ) -> None:
        """Call a place something else; ``Unknown`` where it is not there."""
        table, column = _PLACES[scope]

        async def work(connection: AsyncConnection) -> None:
            renamed = update(table).where(column == place_id).values(name=name)
            if (await connection.execute(renamed)).rowcount == 0:
                raise Unknown(f"there is no {scope} {place_id!r}; see 'llmgw keys tree'")
            await audit_repo.write(connection, entry)

        await self._database.write(work)


_PLACES: dict[Scope, tuple[Table, Column[Any]]] = {
    "org": (orgs, orgs.c.org_id),
    "team": (teams, teams.c.team_id),
    "project": (projects, projects.c.project_id),
}


async def _read(connection: AsyncConnection) -> Tree:
    found: dict[Table, list[dict[str, Any]]] = {}
    for table in (orgs, teams, projects):
        rows = (await connection.execute(select(table).order_by(table.c.name))).all()
        found[table] = [dict(row._mapping) for row in rows]  # noqa: SLF001 - public; the dash is against columns' names
    return Tree(
        orgs=tuple(Org(**row) for row in found[orgs]),
        teams=tuple(Team(**row) for row in found[teams]),
        projects=tuple(Project(**row) for row in found[projects]),
    )


def _check_above(tree: Tree, place: Place) -> None:
    if isinstance(place, Team) and place.org_id not in {one.org_id for one in tree.orgs}:
        raise Unknown(f"there is no organisation {place.org_id!r}; see 'llmgw keys tree'")
    if isinstance(place, Project) and place.team_id not in {one.team_id for one in tree.teams}:
        raise Unknown(f"there is no team {place.team_id!r}; see 'llmgw keys tree'")


async def _named(connection: AsyncConnection, place: Place) -> bool:
    """Whether a place was not there, or had another name."""
    table, column = _PLACES[_scope(place)]
    is_this = column == tenancy.id_of(place)
    name = (await connection.execute(select(table.c.name).where(is_this))).scalar()
    if name == place.name:
        return False
    if name is None:
        return await _insert(connection, place)
    await connection.execute(update(table).where(is_this).values(name=place.name))
    return True


async def _insert(connection: AsyncConnection, place: Place) -> bool:
    table, column = _PLACES[_scope(place)]
    row = {one.name: getattr(place, one.name) for one in table.columns}
    added = upserting.insert(connection, table).values(row).on_conflict_do_nothing()
    return (await connection.execute(added.returning(column))).first() is not None


def _scope(place: Place) -> Scope:
    if isinstance(place, Org):
        return "org"
    return "team" if isinstance(place, Team) else "project"


def _word(place: Place) -> str:
    return "organisation" if isinstance(place, Org) else _scope(place)
