"""How alive a node is, from how long it has been silent; pure."""

from __future__ import annotations

from llmgw.domain.nodes import Liveness, Node, NodeFacts
from llmgw.domain.snapshots import Bounds

_BEATS = 3
"""So many heartbeats may stay out, or a node that beats slowly would come and go for ever."""


def patience_s(facts: NodeFacts, bounds: Bounds) -> float:
    """After how much silence a node is unreachable: the setting, or three of its own beats."""
    return max(bounds.unreachable_after_s, _BEATS * (facts.heartbeat_s or 0.0))


def of(node: Node, *, now: float, bounds: Bounds) -> Liveness:
    """Unreachable stops placement there and nothing else; lost gives its replicas up.

    A node that was lost stays so until it registers again: what it runs was written off, so a
    heartbeat alone must not bring it back.
    """
    if node.liveness is Liveness.LOST:
        return Liveness.LOST
    silence_s = now - node.last_seen_at
    unreachable_after_s = patience_s(node.facts, bounds)
    beat_s = node.facts.heartbeat_s or 0.0
    if silence_s >= max(bounds.lost_after_s, unreachable_after_s + beat_s):
        return Liveness.LOST
    if silence_s >= unreachable_after_s:
        return Liveness.UNREACHABLE
    return Liveness.READY
