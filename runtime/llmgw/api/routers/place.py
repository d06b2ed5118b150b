"""``/tree``: organisations, teams and projects, to which keys and people belong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from fastapi import APIRouter

from llmgw.api.acting import Acting
from llmgw.api.deps import Places
from llmgw.api.schemas.key import Id
from llmgw.api.schemas.place import OrgIn, PlaceOut, PlacesOut, ProjectIn, TeamIn
from llmgw.domain.principals import Scope
from llmgw.domain.tenancy import Org, Place, Team, Tree, id_of

router = APIRouter(tags=["tree"])


@router.get("/tree")
async def tree(places: Places) -> PlacesOut:
    """Every organisation, team and project, each before those that are below it."""
    found = await places.tree()
    return PlacesOut.model_validate({"places": list(_all(found))})


@router.post("/tree/orgs", status_code=201)
async def add_org(places: Places, act: Acting, wanted: OrgIn) -> PlaceOut:
    """Add an organisation; 409 where its name is taken."""
    act.action, act.target = "org.add", wanted.name
    return await _added(places, await places.add_org(wanted.name, actor=act.actor))


@router.post("/tree/teams", status_code=201)
async def add_team(places: Places, act: Acting, wanted: TeamIn) -> PlaceOut:
    """Add a team to an organisation; 409 where its name is taken there."""
    act.action, act.target, act.after = "team.add", wanted.name, {"org": wanted.org}
    team = await places.add_team(wanted.name, org=wanted.org, actor=act.actor)
    return await _added(places, team)


@router.post("/tree/projects", status_code=201)
async def add_project(places: Places, act: Acting, wanted: ProjectIn) -> PlaceOut:
    """Add a project to a team; 409 where its name is taken there."""
    act.action, act.target, act.after = "project.add", wanted.name, {"team": wanted.team}
    project = await places.add_project(wanted.name, team=wanted.team, actor=act.actor)
    return await _added(places, project)


@router.put("/tree/{scope}/{place}/name", status_code=204)
async def rename(
    places: Places, act: Acting, scope: Literal["org", "team", "project"], place: Id, wanted: OrgIn
) -> None:
    """Call a place something else; its keys and limits stay."""
    act.action, act.target, act.after = f"{scope}.rename", place, {"name": wanted.name}
    await places.rename(scope, place, wanted.name, actor=act.actor)


async def _added(places: Places, place: Place) -> PlaceOut:
    return _shown(await places.tree(), place)


def _all(tree: Tree) -> Iterator[PlaceOut]:
    places: tuple[Place, ...] = (*tree.orgs, *tree.teams, *tree.projects)
    for place in places:
        yield _shown(tree, place)


def _shown(tree: Tree, place: Place) -> PlaceOut:
    scope, above_id = _standing(place)
    return PlaceOut(
        scope=scope,
        place_id=id_of(place),
        above_id=above_id,
        name=place.name,
        path=tree.path(place),
        created_at=place.created_at,
    )


def _standing(place: Place) -> tuple[Scope, str | None]:
    if isinstance(place, Org):
        return "org", None
    return ("team", place.org_id) if isinstance(place, Team) else ("project", place.team_id)
