"""The engines of the fleet, as the admin API shows them."""

from __future__ import annotations

from pydantic import Field

from llmgw.api.schemas.from_view import FromView
from llmgw.domain.nodes import InstallState


class EngineTroubleOut(FromView):
    """A node on which it is not as it should be."""

    node_id: str
    state: InstallState
    detail: str


class EngineOut(FromView):
    """One version of an engine."""

    engine: str
    version: str
    node_ids: tuple[str, ...] = Field(description="Nodes that have it and could run it.")
    troubles: tuple[EngineTroubleOut, ...] = Field(
        description="Nodes that should have it and do not, or not yet."
    )


class EnginesOut(FromView):
    """Versions in the order of the engines' names."""

    engines: tuple[EngineOut, ...]
