"""Organisations, their teams, and the projects of these, which hold keys and people; pure.

A place is named by its id, by its name where only one has it, or by the names from the top:
``acme/research/chat``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from llmgw.errors import Invalid, Unknown

DEFAULT = "default"
"""The id of the first organisation, team and project."""

LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Org:
    """The top of a tree."""

    org_id: str
    name: str
    created_at: float


@dataclass(frozen=True, slots=True)
class Team:
    """A part of an organisation."""

    team_id: str
    org_id: str
    name: str
    created_at: float


@dataclass(frozen=True, slots=True)
class Project:
    """What keys belong to."""

    project_id: str
    team_id: str
    name: str
    created_at: float


Place = Org | Team | Project
_PlaceT = TypeVar("_PlaceT", Org, Team, Project)


@dataclass(frozen=True, slots=True)
class Tree:
    """All places of a store, each kind in the order of its names."""

    orgs: tuple[Org, ...] = ()
    teams: tuple[Team, ...] = ()
    projects: tuple[Project, ...] = ()

    def org(self, reference: str) -> Org:
        """By id or name; ``Unknown`` where there is none."""
        return _named(self, self.orgs, reference, kind="organisation")

    def team(self, reference: str) -> Team:
        """By id, name or path; ``Unknown``, or ``Invalid`` where several have the name."""
        return _named(self, self.teams, reference, kind="team")

    def project(self, reference: str) -> Project:
        """By id, name or path; ``Unknown``, or ``Invalid`` where several have the name."""
        return _named(self, self.projects, reference, kind="project")

    def path(self, place: Place) -> str:
        """The names from the top."""
        if isinstance(place, Org):
            return place.name
        if isinstance(place, Team):
            return f"{self._org_of(place).name}/{place.name}"
        return f"{self.path(self._team_of(place))}/{place.name}"

    def above(self, project_id: str) -> tuple[Org, Team, Project]:
        """A project by its id and what is above it; ``Unknown``."""
        project = self.project(project_id)
        team = self._team_of(project)
        return self._org_of(team), team, project

    def _team_of(self, project: Project) -> Team:
        return next(one for one in self.teams if one.team_id == project.team_id)

    def _org_of(self, team: Team) -> Org:
        return next(one for one in self.orgs if one.org_id == team.org_id)


def id_of(place: Place) -> str:
    """The id of a place of any kind."""
    if isinstance(place, Org):
        return place.org_id
    return place.team_id if isinstance(place, Team) else place.project_id


def check_name(name: str, *, what: str) -> str:
    """The name without blanks around it; ``Invalid`` for one that could not be written again."""
    stripped = name.strip()
    if not stripped or not stripped.isprintable() or "/" in stripped:
        raise Invalid(f"{name!r} is no name of {what}: give a word of one line without '/'")
    if len(stripped) > LONGEST_NAME:
        raise Invalid(f"the name of {what} is longer than {LONGEST_NAME} characters")
    return stripped


def _named(tree: Tree, places: Sequence[_PlaceT], reference: str, *, kind: str) -> _PlaceT:
    for place in places:
        if id_of(place) == reference:
            return place
    found = [p for p in places if reference in {p.name, tree.path(p)}]
    if len(found) == 1:
        return found[0]
    if not found:
        raise Unknown(f"there is no {kind} {reference!r}; see 'llmgw keys tree'")
    paths = ", ".join(sorted(tree.path(place) for place in found))
    raise Invalid(f"several {kind}s are called {reference!r}: say which of {paths}")
