"""``llmgw keys init``, ``tree``, ``add-…`` and ``rename``: where keys and people belong."""

from __future__ import annotations

from collections.abc import Iterator

import click

from llmgw.cli import keys_showing
from llmgw.cli.screens import Column, Row
from llmgw.cli.store_options import Desk, on_store
from llmgw.domain import tenancy
from llmgw.domain.principals import Scope
from llmgw.domain.tenancy import DEFAULT, Place, Tree

_COLUMNS = (Column("PLACE"), Column("ID", is_whole=True), Column("LIMITS"))


@click.command()
@click.option("--org", help="Name of the organisation.  [default: as it is, or 'default']")
@click.option("--team", help="Name of its team.  [default: as it is, or 'default']")
@click.option("--project", help="Name of the team's project.  [default: as it is, or 'default']")
@on_store(may_create=True)
async def init(desk: Desk, *, org: str | None, team: str | None, project: str | None) -> None:
    """Make the first organisation, team and project, where keys and people can be put.

    It may be run again at any time; a name that is given then is their name from now on.

    \b
    llmgw keys init
    llmgw keys init --org acme --team research --project chat
    """  # noqa: D301 - click reads \b
    directory = desk.accounts.directory
    names = _names_now(await directory.tree())
    given = {"org": org, "team": team, "project": project}
    names |= {kind: name for kind, name in given.items() if name is not None}
    is_changed = await directory.found(**names, actor=desk.actor)
    path = "/".join(names.values())
    if desk.is_json:
        desk.screen.document({"changed": is_changed, "path": path, "id": DEFAULT})
    else:
        desk.screen.line(f"{path}: {'made' if is_changed else 'is there, nothing changed'}")


@click.command()
@on_store()
async def tree(desk: Desk) -> None:
    """Show every organisation, team and project, and what each limits by itself.

    \b
    llmgw keys tree
    """  # noqa: D301 - click reads \b
    found = await desk.accounts.directory.tree()
    lines = {
        (level.scope, level.scope_id): level for level in await desk.accounts.directory.limits()
    }
    rows, documents = [], []
    for scope, place in _places(found):
        level = lines.get((scope, tenancy.id_of(place)))
        shown = None if level is None else keys_showing.limits_line(level)
        rows.append(Row((found.path(place), tenancy.id_of(place), shown)))
        limits = {} if level is None else keys_showing.level_document(level)
        documents.append(
            {"scope": scope, "id": tenancy.id_of(place), "path": found.path(place), **limits}
        )
    if desk.is_json:
        desk.screen.document({"places": documents})
        return
    desk.screen.table(_COLUMNS, rows)
    if not rows:
        desk.screen.line("nothing is there yet: 'llmgw keys init' makes the first of each")


@click.command("add-org")
@click.argument("name")
@on_store()
async def add_org(desk: Desk, *, name: str) -> None:
    """Add the organisation NAME.

    \b
    llmgw keys add-org globex
    """  # noqa: D301 - click reads \b
    await _added(desk, await desk.accounts.directory.add_org(name, actor=desk.actor))


@click.command("add-team")
@click.argument("name")
@click.option("--org", default=DEFAULT, help="Id or name of the organisation.")
@on_store()
async def add_team(desk: Desk, *, name: str, org: str) -> None:
    """Add the team NAME to an organisation, the first one unless another is named.

    \b
    llmgw keys add-team research --org acme
    """  # noqa: D301 - click reads \b
    team = await desk.accounts.directory.add_team(name, org=org, actor=desk.actor)
    await _added(desk, team)


@click.command("add-project")
@click.argument("name")
@click.option("--team", default=DEFAULT, help="Id, name or path of the team.")
@on_store()
async def add_project(desk: Desk, *, name: str, team: str) -> None:
    """Add the project NAME to a team, the first one unless another is named.

    \b
    llmgw keys add-project chat --team acme/research
    """  # noqa: D301 - click reads \b
    project = await desk.accounts.directory.add_project(name, team=team, actor=desk.actor)
    await _added(desk, project)


@click.command()
@click.argument("scope", type=click.Choice(["org", "team", "project"]))
@click.argument("reference", metavar="PLACE")
@click.argument("name")
@on_store()
async def rename(desk: Desk, *, scope: Scope, reference: str, name: str) -> None:
    """Call PLACE, named by id, name or path, NAME from now on; all else stays.

    \b
    llmgw keys rename team acme/research lab
    """  # noqa: D301 - click reads \b
    directory = desk.accounts.directory
    place_id = await directory.id_of(scope, reference)
    await directory.rename(scope, place_id, name, actor=desk.actor)
    if desk.is_json:
        desk.screen.document({"scope": scope, "id": place_id, "name": name})
    else:
        desk.screen.line(f"{scope} {place_id} is called {name} now")


def _names_now(found: Tree) -> dict[str, str]:
    """What the first places are called; their id where they are not there yet."""
    kinds = (("org", found.orgs), ("team", found.teams), ("project", found.projects))
    return {
        kind: next((one.name for one in places if tenancy.id_of(one) == DEFAULT), DEFAULT)
        for kind, places in kinds
    }


def _places(found: Tree) -> Iterator[tuple[Scope, Place]]:
    """From the top down, each with what is below it."""
    for org in found.orgs:
        yield "org", org
        for team in (one for one in found.teams if one.org_id == org.org_id):
            yield "team", team
            for project in (one for one in found.projects if one.team_id == team.team_id):
                yield "project", project


async def _added(desk: Desk, place: Place) -> None:
    path = (await desk.accounts.directory.tree()).path(place)
    if desk.is_json:
        desk.screen.document({"id": tenancy.id_of(place), "path": path})
    else:
        desk.screen.line(f"{path} has the id {tenancy.id_of(place)}")
