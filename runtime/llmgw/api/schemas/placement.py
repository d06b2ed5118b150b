"""The explanation of a placement as the admin API shows it."""

from __future__ import annotations

from pydantic import Field

from llmgw.api.schemas.from_view import FromView


class GateOut(FromView):
    """One condition that the whole model must pass before any node is looked at."""

    name: str
    is_open: bool
    detail: str


class NodeVerdictOut(FromView):
    """What one node is to one profile."""

    node_id: str
    is_fit: bool
    reason: str = Field(description="Why it does not fit; empty when it does.")
    check: str = Field(description="The first test that refused it.")


class ProfileVerdictOut(FromView):
    """Whether one profile can be placed now, with a line for every node."""

    profile: str
    engine: str
    is_fit: bool
    nodes: tuple[NodeVerdictOut, ...]
    gpu_class: str
    priority: int
    summary: str


class ChosenShardOut(FromView):
    """Where one shard would go."""

    node_id: str
    rank: int
    gpu_indices: tuple[int, ...]
    http_port: int | None


class ChosenPlacementOut(FromView):
    """The placement that a pass would make from this snapshot."""

    profile: str
    shards: tuple[ChosenShardOut, ...]
    pool: str
    fabric: str


class PlacementOut(FromView):
    """Why a model is placed where it is, or why it is not placed at all."""

    model: str
    want: int
    ready: int
    starting: int
    is_satisfied: bool = Field(description="As many run or start as are wanted.")
    is_unplaced: bool = Field(description="Some are missing and no node takes them.")
    gates: tuple[GateOut, ...]
    profiles: tuple[ProfileVerdictOut, ...]
    chosen: ChosenPlacementOut | None = Field(
        description="What fits now; a pass acts on it when every gate is open."
    )
