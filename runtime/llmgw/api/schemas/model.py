"""Catalog entries as the admin API shows them, with how much of each runs."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from llmgw.api.schemas.from_view import FromView
from llmgw.domain.views import ModelStatus


class ScalingOut(FromView):
    """How many replicas are wanted."""

    min: int
    max: int
    idle_timeout_s: float


class FailureOut(FromView):
    """The last failed replica of a model, readable after that replica is gone."""

    replica_id: str
    error: str
    ago_s: float
    node_id: str
    exit_code: int | None
    last_output: tuple[str, ...]


class ModelOut(FromView):
    """One catalog entry and how much of it runs."""

    name: str
    status: ModelStatus
    want: int = Field(description="Replicas wanted now.")
    ready: int
    starting: int
    draining: int
    source: str
    aliases: tuple[str, ...]
    fallbacks: tuple[str, ...]
    profiles: tuple[str, ...]
    scaling: ScalingOut | None
    origin: str = Field(description="declared (in the settings file) or stored.")
    is_simulated: bool
    capabilities: tuple[str, ...]
    context_length: int | None
    description: str | None
    reason: str = Field(description="Why fewer run than are wanted; empty when nothing is missing.")
    backoff_left_s: float | None
    is_asked: bool = Field(description="Requests wait for it, or have used it just now.")
    ready_in_s: float | None = Field(
        description="Seconds until it will probably serve; null when it does, or when unknown."
    )
    stale: int = Field(description="Replicas that were placed with an older profile.")
    roll: str = Field(
        description="How far the replacement of those is; empty while nobody has asked for it."
    )
    last_failure: FailureOut | None


class RollIn(BaseModel):
    """How replicas of an older profile are to be replaced."""

    model_config = ConfigDict(extra="forbid")

    may_interrupt: bool = Field(
        default=False,
        description="Where there is no room for both, stop the old one before the new one serves.",
    )


class ModelsOut(FromView):
    """Catalog entries in the order of their names."""

    models: tuple[ModelOut, ...]
    skipped: dict[str, str] = Field(
        description="Stored models that were left out of the catalog, by name, and why."
    )
