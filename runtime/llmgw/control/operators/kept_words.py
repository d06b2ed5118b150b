"""What must be kept of operators' words, and what hears them; ``store`` and the reconciler fit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from llmgw.domain.nodes import Node, NodeTarget
from llmgw.domain.snapshots import Roll
from llmgw.domain.stored import NodeFlag, StoredNode, StoredRoll
from llmgw.domain.views import ModelView, NodeView


class NodeRows(Protocol):
    """The stored nodes; each change is refused where ``owner`` does not lead."""

    async def all(self) -> Sequence[StoredNode]:
        """Every node."""
        ...

    async def flag(self, node_id: str, flag: NodeFlag, *, owner: str) -> None:
        """Keep an operator's word."""
        ...

    async def ban(self, node_id: str, *, is_banned: bool, owner: str) -> None:
        """Let a node in no more, or again; ``Unknown`` where it is not there."""
        ...

    async def forget(self, node_id: str, *, owner: str) -> None:
        """Let go of a node; ``Unknown`` where it is not there."""
        ...

    async def seen(self, told: Mapping[str, Mapping[str, object]], *, at: float) -> None:
        """These nodes were there."""
        ...

    async def prune(self, *, before: float) -> int:
        """Let go of nodes that nobody has seen for long."""
        ...


class RollRows(Protocol):
    """The stored rolls; each change is refused where ``owner`` does not lead."""

    async def all(self) -> Sequence[StoredRoll]:
        """Every roll."""
        ...

    async def put(self, roll: StoredRoll, *, owner: str) -> None:
        """Keep one."""
        ...

    async def halt(self, model: str, *, reason: str, owner: str) -> None:
        """It goes no further."""
        ...

    async def end(self, model: str, *, owner: str) -> None:
        """It has come to its end."""
        ...


@dataclass(frozen=True, slots=True)
class Shelves:
    """Where words are kept, and for whom: ``owner`` is the candidate that leads."""

    nodes: NodeRows
    rolls: RollRows
    owner: str


@dataclass(frozen=True, slots=True)
class Words:
    """All that operators have said and that still holds, and the nodes that are known.

    ``present`` are those that were there when any was last.
    """

    flags: Mapping[str, NodeFlag] = field(default_factory=dict)
    rolls: Mapping[str, Roll] = field(default_factory=dict)
    known: Mapping[str, Node] = field(default_factory=dict)
    banned: frozenset[str] = frozenset()
    present: frozenset[str] = frozenset()


class Fleet(Protocol):
    """The fleet as it is known now; the reconciler fits. Calls return at once."""

    def nodes_now(self) -> Mapping[str, Node]:
        """Every known node."""
        ...

    def rolls_now(self) -> Mapping[str, Roll]:
        """The rolls under way, those that halted included."""
        ...

    def flag_for(self, node_id: str, *, target: NodeTarget, reason: str, actor: str) -> NodeFlag:
        """The flag that a word comes to; ``Unknown`` node, ``Standby``."""
        ...

    def flag_node(self, node_id: str, flag: NodeFlag) -> NodeView:
        """Have it take effect."""
        ...

    def check_known(self, node_id: str) -> None:
        """``Unknown`` node, ``Standby``."""
        ...

    def ban_node(self, node_id: str, *, is_banned: bool) -> NodeView:
        """Have it take effect."""
        ...

    def check_forget(self, node_id: str) -> None:
        """``Unknown``, ``Standby``, or ``Conflict`` while the node is there."""
        ...

    def forget_node(self, node_id: str) -> None:
        """Have it take effect."""
        ...

    def forget_silent(self, *, for_s: float) -> None:
        """Let go of nodes that are lost for so long, and of which nobody has said anything."""
        ...

    def roll_for(self, model: str, *, may_interrupt: bool) -> Roll:
        """The roll that a word comes to; ``Unknown`` model, ``Standby``."""
        ...

    def begin_roll(self, roll: Roll) -> ModelView:
        """Have it take effect."""
        ...

    def retry(self, model: str) -> ModelView:
        """Start a model anew that failed, which needs no keeping; ``Unknown``, ``Standby``."""
        ...

    def recall(
        self,
        *,
        flags: Mapping[str, NodeFlag],
        rolls: Mapping[str, Roll],
        known: Mapping[str, Node],
        banned: Collection[str],
        present: Collection[str],
    ) -> None:
        """What was said before, in place of all that is known of it here."""
        ...
