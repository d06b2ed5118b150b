"""Nodes that are known from before and have not registered since this lead began.

Nobody knows what runs there, so they take part in no pass. They are shown, lest somebody overlooks
that they are gone, and operators' words on them wait for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from llmgw.domain.nodes import Liveness, Node
from llmgw.domain.snapshots import Bounds


class Absent:
    """The nodes of one lead that are still to come, or never will."""

    def __init__(self, bounds: Bounds) -> None:
        """Nobody is known."""
        self._lost_after_s = bounds.lost_after_s
        self._nodes: dict[str, Node] = {}
        self._listens_since = 0.0

    def recall(self, known: Mapping[str, Node], *, besides: Collection[str], now: float) -> None:
        """Know of these, ``besides`` those that are there, in place of all known before."""
        self._nodes = {name: node for name, node in known.items() if name not in besides}
        self._listens_since = now

    def nodes(self, *, now: float) -> Mapping[str, Node]:
        """All of them; each counts as lost once it could have registered for long."""
        has_waited = now - self._listens_since >= self._lost_after_s
        liveness = Liveness.LOST if has_waited else Liveness.UNREACHABLE
        return {
            name: replace(node, liveness=liveness, is_connected=False)
            for name, node in self._nodes.items()
        }

    def find(self, node_id: str, *, now: float) -> Node | None:
        """One of them."""
        return self.nodes(now=now).get(node_id) if node_id in self._nodes else None

    def put(self, node: Node) -> None:
        """What is known of one of them has changed."""
        self._nodes[node.node_id] = node

    def drop(self, node_id: str) -> None:
        """It has come, or is forgotten."""
        self._nodes.pop(node_id, None)

    def clear(self) -> None:
        """Another one leads."""
        self._nodes = {}
