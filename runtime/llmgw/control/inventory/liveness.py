"""How alive a node is, from how long it has been silent; pure."""

from __future__ import annotations

from llmgw.domain.nodes import Liveness, Node
from llmgw.domain.snapshots import Bounds


def of(node: Node, *, now: float, bounds: Bounds) -> Liveness:
    """Unreachable stops placement there and nothing else; lost gives its replicas up.

    A node that was lost stays so until it registers again: what it runs was written off, so a
    heartbeat alone must not bring it back.
    """
    if node.liveness is Liveness.LOST:
        return Liveness.LOST
    silence_s = now - node.last_seen_at
    if silence_s >= bounds.lost_after_s:
        return Liveness.LOST
    if silence_s >= bounds.unreachable_after_s:
        return Liveness.UNREACHABLE
    return Liveness.READY
