"""What is shown of a placement: every condition, every node, and what would be chosen.

One flat frozen value a thing, as in ``views``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GateView:
    """One condition that the whole model must pass before any node is looked at."""

    name: str
    is_open: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What one node is to one profile; ``check`` is the first test that refused it, if any."""

    node_id: str
    is_fit: bool
    reason: str = ""
    check: str = ""


@dataclass(frozen=True, slots=True)
class ProfileVerdict:
    """Whether one profile can be placed now, with a line for every node."""

    profile: str
    engine: str
    is_fit: bool
    nodes: tuple[NodeVerdict, ...]
    gpu_class: str = ""
    priority: int = 0
    summary: str = ""


@dataclass(frozen=True, slots=True)
class ChosenShard:
    """Where one shard would go."""

    node_id: str
    rank: int
    gpu_indices: tuple[int, ...] = ()
    http_port: int | None = None


@dataclass(frozen=True, slots=True)
class ChosenPlacement:
    """The placement that a pass would make from this snapshot."""

    profile: str
    shards: tuple[ChosenShard, ...]
    pool: str = ""
    fabric: str = ""


@dataclass(frozen=True, slots=True)
class PlacementView:
    """Why a model is placed where it is, or why it is not placed at all.

    ``chosen`` is what fits, whether or not a gate is shut; a pass acts on it when all are open.
    """

    model: str
    want: int
    ready: int
    starting: int
    gates: tuple[GateView, ...]
    profiles: tuple[ProfileVerdict, ...]
    chosen: ChosenPlacement | None = None

    @property
    def is_satisfied(self) -> bool:
        """As many run or start as are wanted."""
        return self.ready + self.starting >= self.want

    @property
    def is_unplaced(self) -> bool:
        """Some are missing and no node takes them."""
        return not self.is_satisfied and self.chosen is None
