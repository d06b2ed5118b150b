"""Whether a node can be asked at all, said so that a person knows which of the two is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.domain.nodes import never_registered
from llmgw.domain.views import NodeView
from llmgw.errors import NotConnected


def check_connected(node_id: str, *, nodes: Sequence[NodeView]) -> None:
    """``Unknown`` for a node that never registered, ``NotConnected`` for one that is away."""
    node = next((node for node in nodes if node.node_id == node_id), None)
    if node is None:
        raise never_registered(node_id)
    if not node.is_connected:
        silent_s = f"{node.last_seen_s:.0f} s"
        raise NotConnected(f"the agent of {node_id} is not connected (silent for {silent_s})")
