"""Downloads of nodes as the admin API shows them: what no model names, and what is on its way."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from llmgw.api.schemas.from_view import FromView
from llmgw.api.schemas.node import FetchOut


class OrphanOut(FromView):
    """A download on a node that no model of the catalog names."""

    node_id: str
    path: str
    size_bytes: int
    is_shared: bool = Field(description="Other nodes see the same file.")


class NodeFetchOut(FromView):
    """A download of a node, and the models whose weights it is."""

    node_id: str
    models: tuple[str, ...]
    fetch: FetchOut


class DownloadsOut(FromView):
    """In the order of nodes and paths."""

    orphans: tuple[OrphanOut, ...]
    fetches: tuple[NodeFetchOut, ...] = Field(
        description="Downloads under way, and those that failed since their agent began."
    )


class FetchIn(BaseModel):
    """Which nodes shall have a model's weights before it starts there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(description="By its name or an alias.")
    node_ids: tuple[str, ...] = Field(min_length=1, max_length=1000)
    is_cancelled: bool = Field(False, description="They need not have them any more.")


class FetchOrderOut(FromView):
    """What a node made of it."""

    node_id: str
    is_done: bool
    detail: str


class FetchOrdersOut(FromView):
    """One for each node, in the order in which they were named."""

    orders: tuple[FetchOrderOut, ...]


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
