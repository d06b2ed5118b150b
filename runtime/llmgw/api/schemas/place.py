"""Organisations, teams and projects as the admin API is told of them and shows them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from llmgw.api.schemas.from_view import FromView
from llmgw.domain.principals import Scope

_NAME = Field(min_length=1, max_length=100)
_ABOVE = Field(default="default", max_length=400, description="Id, name or path.")


class OrgIn(BaseModel):
    """An organisation that is to be added."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = _NAME


class TeamIn(OrgIn):
    """A team that is to be added."""

    org: str = _ABOVE


class ProjectIn(OrgIn):
    """A project that is to be added."""

    team: str = _ABOVE


class PlaceOut(FromView):
    """One place of the tree."""

    scope: Scope
    place_id: str
    above_id: str | None = Field(description="Null of an organisation.")
    name: str
    path: str = Field(description="The names from the top.")
    created_at: float


class PlacesOut(FromView):
    """Each before those that are below it."""

    places: tuple[PlaceOut, ...]
