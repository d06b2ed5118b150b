"""Which of the nodes that fit is the best; pure, and the same whatever order they come in.

Single cards are packed, so that whole nodes stay free for large models; processor replicas are
spread. Before either: two replicas of one model do not share a node, and weights are not moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmgw.control.placement import fitting
from llmgw.control.placement.fitting import Meeting, Need, Site


def best(sites: Sequence[Site], need: Need) -> Site:
    """The node for a replica that fits on one."""
    return min(sites, key=lambda site: _single(site, need))


def best_group(
    meetings: Mapping[Meeting, Sequence[Site]], need: Need
) -> tuple[Meeting, tuple[Site, ...]]:
    """Where to meet, and the emptiest nodes there, for a replica over several; the best first."""
    groups = {
        at: tuple(sorted(sites, key=lambda site: _member(site, need))[: need.profile.nodes])
        for at, sites in meetings.items()
    }
    best_at = min(groups, key=lambda at: _group(at, groups[at], len(meetings[at]), need))
    return best_at, groups[best_at]


def _single(site: Site, need: Need) -> tuple[bool, int, bool, int, str]:
    if need.profile.is_cpu:
        filling = site.claims.replicas
    else:
        filling = len(site.free_of(need.profile.gpu_class))
    return (
        site.node_id in need.avoided,
        site.claims.by_model.get(need.model, 0),
        not fitting.holds_weights(site, need),
        filling,
        site.node_id,
    )


def _member(site: Site, need: Need) -> tuple[bool, int, int, bool, str]:
    return (
        site.node_id in need.avoided,
        site.claims.by_model.get(need.model, 0),
        -len(site.free_of(need.profile.gpu_class)),
        not fitting.holds_weights(site, need),
        site.node_id,
    )


def _group(
    at: Meeting, chosen: Sequence[Site], qualifying: int, need: Need
) -> tuple[int, int, int, Meeting]:
    holders = sum(fitting.holds_weights(site, need) for site in chosen)
    slowest_gbps = min(_rate_gbps(site, at.fabric) for site in chosen)
    return (-holders, -slowest_gbps, -(qualifying - len(chosen)), at)


def _rate_gbps(site: Site, fabric: str) -> int:
    return next((f.rate_gbps or 0 for f in site.node.facts.fabrics if f.name == fabric), 0)
