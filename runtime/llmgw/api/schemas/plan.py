"""What passes would do, as the admin API shows it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from llmgw.api.schemas.from_view import FromView
from llmgw.domain.questions import Supposed


class ActionOut(FromView):
    """One action of a pass; null does not apply to its kind."""

    kind: str
    reason: str
    model: str | None
    profile: str | None
    replica_id: str | None
    node_ids: tuple[str, ...]


class PlanOut(FromView):
    """The next pass."""

    actions: tuple[ActionOut, ...] = Field(description="In the order in which they are done.")
    waits: dict[str, str] = Field(
        description="By model: why what it lacks is not placed by this pass."
    )


class PassOut(FromView):
    """One of several passes."""

    after_s: float = Field(description="Seconds after the first one.")
    actions: tuple[ActionOut, ...]


class ModelOutlookOut(FromView):
    """How many replicas of a model serve before and after."""

    model: str
    want: int
    before: int
    after: int
    reason: str = Field(description="Why fewer than are wanted; empty when nothing is missing.")


class OutlookOut(FromView):
    """What would come of it, if every start served at once and every stop were confirmed."""

    passes: tuple[PassOut, ...] = Field(description="Those that would do something.")
    models: tuple[ModelOutlookOut, ...] = Field(
        description="Those that stand otherwise than before, or lack something."
    )
    is_complete: bool = Field(description="Nothing is left to do after the last pass.")
    is_enough: bool = Field(description="Every model has what is wanted of it.")


class WhatIfIn(BaseModel):
    """A node (by name) that drains or is lost, or a model (by name or definition) that comes."""

    model_config = ConfigDict(extra="forbid")

    supposed: Supposed
    name: str = ""
    definition: dict[str, Any] | None = Field(
        default=None, description="A model as in the settings file; only with add."
    )
