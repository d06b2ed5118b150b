"""The catalog as it was written, and changes of it, as the admin API takes and shows them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from llmgw.api.schemas.from_view import FromView
from llmgw.api.schemas.model import ScalingOut
from llmgw.domain.catalog_views import ChangeKind, Origin

_LONGEST_TEXT = 4 * 1024 * 1024

Written = Annotated[
    dict[str, Any] | Annotated[str, Field(max_length=_LONGEST_TEXT)],
    Field(description="A model as in the settings file; a text is YAML."),
]
"""One definition, however it comes."""


class EntryOut(FromView):
    """One catalog entry as it was written."""

    name: str
    origin: Origin = Field(description="Declared ones are changed in the settings alone.")
    definition: dict[str, Any]
    scaling: ScalingOut | None = Field(description="The one in force.")
    fingerprints: dict[str, str] = Field(
        description="By profile: the version that its replicas are placed with."
    )
    actor: str | None = Field(description="Who added it; null of a declared one.")
    created_at: float | None = Field(description="Seconds since 1970; null of a declared one.")
    updated_at: float | None
    revision: int | None = Field(description="Rises with each change; null of a declared one.")


class CatalogOut(FromView):
    """The whole catalog."""

    entries: tuple[EntryOut, ...] = Field(description="In the order of their names.")
    skipped: dict[str, str] = Field(
        description="Stored entries that were left out of the catalog, by name, and why."
    )


class FieldChangeOut(FromView):
    """One value that becomes another; null is: not written, so its default."""

    path: str
    before: Any
    after: Any


class ModelChangeOut(FromView):
    """What becomes of one entry."""

    name: str
    kind: ChangeKind
    fields: tuple[FieldChangeOut, ...]
    stale_profiles: tuple[str, ...] = Field(
        description="Replicas of these run on, flagged, until somebody has them replaced."
    )


class SourceOut(FromView):
    """Whether weights are where a source says."""

    source: str
    is_good: bool | None = Field(description="null where only a node or an engine can tell.")
    detail: str
    size_bytes: int | None


class OutcomeOut(FromView):
    """What came of a change, or would come of it."""

    changes: tuple[ModelChangeOut, ...] = Field(description="In the order of their names.")
    entry: EntryOut | None = Field(
        description="The entry afterwards; null where it is gone or the whole catalog was meant."
    )
    sources: tuple[SourceOut, ...] = Field(description="Those that were looked for.")


class AddIn(BaseModel):
    """A model to be added."""

    model_config = ConfigDict(extra="forbid")

    definition: Written
    replace: bool = Field(default=False, description="In place of a stored one of that name.")
    check_source: bool = Field(
        default=True, description="Refuse it where its weights are not found."
    )


class ScalingIn(BaseModel):
    """Numbers of replicas."""

    model_config = ConfigDict(extra="forbid")

    min: int
    max: int | None = Field(default=None, description="null: min.")
    idle_timeout: str | float | None = Field(
        default=None, description="Such as 30m; null: as it was written before."
    )


class FallbacksIn(BaseModel):
    """Other models that answer instead, in this order."""

    model_config = ConfigDict(extra="forbid")

    fallbacks: tuple[str, ...]


class DescriptionIn(BaseModel):
    """One line for people who choose."""

    model_config = ConfigDict(extra="forbid")

    description: str = Field(description="Empty takes it away.")


class SourceIn(BaseModel):
    """A source to be looked for."""

    model_config = ConfigDict(extra="forbid")

    source: str = Field(min_length=1, max_length=4096)


class CatalogIn(BaseModel):
    """The stored part of a catalog, or all of it, as it is wanted."""

    model_config = ConfigDict(extra="forbid")

    models: list[dict[str, Any]] | Annotated[str, Field(max_length=_LONGEST_TEXT)] = Field(
        description="Models as in the settings file; a text is YAML, with `models` or without. "
        "Declared ones may be among them, as they are."
    )
    prune: bool = Field(default=False, description="Remove stored ones that are not among them.")
    check_sources: bool = Field(
        default=True, description="Refuse all where weights of new sources are not found."
    )
