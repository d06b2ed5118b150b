"""The brake on a mass loss: many nodes gone silent at once is most likely our own network; pure.

While it is on nobody is given up for silence and nothing is placed, so that a cut cable does not
have half of a fleet loaded anew on the other half. It ends when half of those nodes are back, when
somebody lifts it, or after a while; those that are silent still are then judged as any other, but
where half came back the rest has a moment more for the same.

A control plane that has just begun, or has just come to lead, awaits the nodes of the table that
was published last: those that have not come when settling ends are silent as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from llmgw.control.inventory import liveness
from llmgw.domain.nodes import Liveness, Node
from llmgw.domain.snapshots import Bounds, Brake

_BACK_SHARE = 0.5


def noted(
    brake: Brake,
    *,
    nodes: Mapping[str, Node],
    awaited: Mapping[str, float],
    bounds: Bounds,
    now: float,
) -> Brake:
    """The brake after another look at the nodes; ``awaited`` says since when nobody has come."""
    silent = {**awaited, **_silent(nodes, bounds=bounds, now=now)}
    brake = replace(brake, passed=brake.passed & silent.keys())
    if (since_at := brake.since_at) is not None:
        # Nodes do not fall silent all in the same pass.
        brake = replace(brake, held=brake.held | (silent.keys() - brake.passed))
        if _are_back(brake, {*nodes, *awaited}, silent):
            return Brake(passed=frozenset(silent), spared_until=now + bounds.lost_after_s)
        is_over = now - since_at >= bounds.brake_max_s
        return Brake(passed=frozenset(silent)) if is_over else brake
    held = _gone_together(silent, passed=brake.passed, window_s=bounds.brake_window_s)
    present = sum(node.liveness is not Liveness.LOST for node in nodes.values()) + len(awaited)
    least = max(bounds.brake_min_nodes, math.ceil(bounds.brake_fraction * present))
    return replace(brake, since_at=now, held=held) if len(held) >= least else brake


def lifted(
    nodes: Mapping[str, Node], *, awaited: Mapping[str, float], bounds: Bounds, now: float
) -> Brake:
    """The brake taken off: who is silent now does not put it on again."""
    return Brake(passed=frozenset({**awaited, **_silent(nodes, bounds=bounds, now=now)}))


def spares(brake: Brake, node_id: str, *, now: float) -> bool:
    """Whether a silent node is not to be given up now."""
    return brake.is_on or (node_id in brake.passed and now < brake.spared_until)


def _silent(nodes: Mapping[str, Node], *, bounds: Bounds, now: float) -> Mapping[str, float]:
    """When each node last spoke that is silent and not given up."""
    return {
        node_id: node.last_seen_at
        for node_id, node in nodes.items()
        if node.liveness is not Liveness.LOST
        and liveness.of(node, now=now, bounds=bounds) is not Liveness.READY
    }


def _are_back(brake: Brake, known: AbstractSet[str], silent: Mapping[str, float]) -> bool:
    held = brake.held & known
    return len(held - silent.keys()) >= len(held) * _BACK_SHARE


def _gone_together(
    silent: Mapping[str, float], *, passed: frozenset[str], window_s: float
) -> frozenset[str]:
    """Those that fell silent last, within one window of each other."""
    fresh = {node_id: at for node_id, at in silent.items() if node_id not in passed}
    newest = max(fresh.values(), default=0.0)
    return frozenset(node_id for node_id, at in fresh.items() if at >= newest - window_s)
