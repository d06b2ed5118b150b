"""Downloads that no model names, as the admin API shows them, and what became of removing them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from llmgw.api.schemas.from_view import FromView


class OrphanOut(FromView):
    """A download on a node that no model of the catalog names."""

    node_id: str
    path: str
    size_bytes: int
    is_shared: bool = Field(description="Other nodes see the same file.")


class OrphansOut(FromView):
    """In the order of nodes and paths."""

    orphans: tuple[OrphanOut, ...]


class CollectIn(BaseModel):
    """Whose orphans shall go."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node_id: str | None = Field(None, description="One node; null: every connected one.")


class RemovalOut(FromView):
    """What its node made of one removal."""

    node_id: str
    path: str
    is_removed: bool
    detail: str = Field(description="Why it stays, or what else there is to say.")


class RemovalsOut(FromView):
    """One for each path that was asked for."""

    removals: tuple[RemovalOut, ...]
