"""Where a new replica of a model would run, or why nowhere; pure.

The live pass, ``explain`` and every preview ask here, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmgw.control.inventory import claims as claiming
from llmgw.control.placement import cards, fitting, reasons, scoring, tcp_ports
from llmgw.control.placement.fitting import Meeting, Need, Refusal, Site
from llmgw.domain.catalog import Model, Profile
from llmgw.domain.snapshots import Bounds, Cluster, Failures

TIRED_AFTER = 3
"""Failures in a row after which another profile of the model is tried first."""


@dataclass(frozen=True, slots=True)
class Space:
    """All nodes with what they owe, at one instant; made once a pass."""

    sites: tuple[Site, ...]
    now: float
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one shard would run and what it would hold there."""

    node_id: str
    rank: int
    http_port: int
    gpu_indices: tuple[int, ...] = ()
    hcas: tuple[str, ...] = ()
    leader_port: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """A place for a whole replica; rank 0 comes first and its address is where it answers."""

    profile: Profile
    slots: tuple[Slot, ...]
    leader_addr: str
    pool: str
    fabric: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """One profile and its place, or the reason of every node and a summary of them."""

    profile: Profile
    placement: Placement | None
    refusals: tuple[Refusal, ...] = ()
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The profiles that were tried, best first, and the first place that was found."""

    tried: tuple[Tried, ...]

    @property
    def placement(self) -> Placement | None:
        """The place to take."""
        return next((t.placement for t in self.tried if t.placement is not None), None)

    @property
    def reason(self) -> str:
        """Why there is none; empty when there is one."""
        if self.placement is not None:
            return ""
        return "; ".join(f"profile {t.profile.name}: {t.summary}" for t in self.tried)


def space(cluster: Cluster, *, now: float, bounds: Bounds, asker: str = "") -> Space:
    """The nodes of a cluster as placement sees them; in order of their names.

    ``asker`` is the model that may take the room that is kept for it.
    """
    book = claiming.by_node(cluster, now=now)
    claiming.keep_room(book, cluster, besides=asker, now=now)
    return Space(
        sites=tuple(
            fitting.site(cluster.nodes[node_id], book[node_id]) for node_id in sorted(cluster.nodes)
        ),
        now=now,
        bounds=bounds,
    )


def plan(
    where: Space, model: Model, *, failures: Failures | None, is_full: bool = False
) -> Outcome:
    """Try the profiles, best first, until one fits; ``is_full`` tries them all, for explaining."""
    tried: list[Tried] = []
    for profile in preferred(model, failures=failures):
        wanted = need(where, model, profile, failures=failures)
        tried.append(_try(where.sites, wanted))
        if tried[-1].placement is not None and not is_full:
            break
    return Outcome(tried=tuple(tried))


def need(where: Space, model: Model, profile: Profile, *, failures: Failures | None = None) -> Need:
    """What one profile asks of each of its nodes."""
    return Need(
        model=model.name,
        source=model.source,
        profile=profile,
        now=where.now,
        port_range=where.bounds.port_range,
        avoided=_avoided(failures, where),
    )


def preferred(model: Model, *, failures: Failures | None) -> Sequence[Profile]:
    """The profiles by priority, the order of writing among equals; one that keeps failing last."""
    by_profile = failures.by_profile if failures is not None else {}
    return sorted(
        model.profiles, key=lambda p: (by_profile.get(p.name, 0) >= TIRED_AFTER, -p.priority)
    )


def _avoided(failures: Failures | None, where: Space) -> frozenset[str]:
    if failures is None:
        return frozenset()
    since_at = where.now - where.bounds.avoid_s
    return frozenset(node for node, at in failures.by_node.items() if at > since_at)


def _try(sites: Sequence[Site], need: Need) -> Tried:
    refusals: list[Refusal] = []
    fits: list[Site] = []
    for site in sites:
        refusal = fitting.refusal(site, need)
        if refusal is None:
            fits.append(site)
        else:
            refusals.append(refusal)
    if need.is_multi_node:
        return _try_fabrics(sites, fits, refusals, need)
    if fits:
        chosen = scoring.best(fits, need)
        return Tried(need.profile, _placement([chosen], need, fabric=""), tuple(refusals))
    return Tried(need.profile, None, tuple(refusals), _one_node_summary(refusals))


def _try_fabrics(
    sites: Sequence[Site], fits: Sequence[Site], refusals: Sequence[Refusal], need: Need
) -> Tried:
    meetings = _meetings(fits, need)
    enough = {at: found for at, found in meetings.items() if len(found) >= need.profile.nodes}
    if enough:
        at, chosen = scoring.best_group(enough, need)
        return Tried(need.profile, _placement(chosen, need, fabric=at.fabric), tuple(refusals))
    all_refusals = (*refusals, *(_too_small(site, meetings, need) for site in fits))
    by_fabric = {name: len(found) for name, found in _by_fabric(fits).items()}
    summary = reasons.many_nodes(
        by_fabric,
        {name: len(members) for name, members in _by_fabric(sites).items()},
        needed=need.profile.nodes,
        why=_closest(all_refusals),
    )
    return Tried(need.profile, None, all_refusals, summary)


def _by_fabric(sites: Sequence[Site]) -> Mapping[str, Sequence[Site]]:
    by_fabric: dict[str, list[Site]] = {}
    for site in sites:
        for name in fitting.fabric_names(site):
            by_fabric.setdefault(name, []).append(site)
    return by_fabric


def _meetings(sites: Sequence[Site], need: Need) -> Mapping[Meeting, Sequence[Site]]:
    """The nodes that find each other: on one fabric, and by one way of their engine."""
    meetings: dict[Meeting, Sequence[Site]] = {}
    for name, members in _by_fabric(sites).items():
        modes = {site.node_id: fitting.launch_mode(site, need) for site in members}
        for mode in sorted(set(modes.values()) - {""}) or [""]:
            meetings[Meeting(name, mode)] = [s for s in members if modes[s.node_id] in {"", mode}]
    return meetings


def _too_small(site: Site, meetings: Mapping[Meeting, Sequence[Site]], need: Need) -> Refusal:
    names = fitting.fabric_names(site)
    own = {str(at): len(found) for at, found in meetings.items() if at.fabric in names}
    return Refusal(
        node_id=site.node_id,
        check=fitting.FABRIC_SIZE,
        reason=reasons.too_small(own, needed=need.profile.nodes),
    )


def _one_node_summary(refusals: Sequence[Refusal]) -> str:
    counts = reasons.counted([refusal.check for refusal in refusals])
    return reasons.one_node(counts, closest=_closest(refusals))


_CHECK_ORDER = {name: i for i, name in enumerate([*dict(fitting.CHECKS), fitting.FABRIC_SIZE])}


def _closest(refusals: Sequence[Refusal]) -> str:
    """The node that came furthest, and what stopped it."""
    if not refusals:
        return reasons.NO_NODES
    closest = min(refusals, key=lambda r: (-_CHECK_ORDER[r.check], r.node_id))
    return f"closest is {closest.node_id}: {closest.reason}"


def _placement(sites: Sequence[Site], need: Need, *, fabric: str) -> Placement:
    handed: dict[str, set[int]] = {site.node.facts.mgmt_addr: set() for site in sites}
    return Placement(
        profile=need.profile,
        slots=tuple(
            _slot(site, need, rank=rank, fabric=fabric, handed=handed[site.node.facts.mgmt_addr])
            for rank, site in enumerate(sites)
        ),
        leader_addr=sites[0].node.facts.mgmt_addr,
        pool=pool_name(sites[0], need.profile, fabric=fabric),
        fabric=fabric,
    )


def pool_name(site: Site, profile: Profile, *, fabric: str) -> str:
    """``ib-a/h100-80g``; ``local`` stands for no fabric, ``cpu`` for no card."""
    own = next(iter(sorted(fitting.fabric_names(site))), "local")
    return f"{fabric or own}/{profile.gpu_class or 'cpu'}"


def _slot(site: Site, need: Need, *, rank: int, fabric: str, handed: set[int]) -> Slot:
    facts, profile = site.node.facts, need.profile
    port_range, taken = facts.port_range or need.port_range, site.claims.taken_ports | handed
    serving = tcp_ports.lowest_free(port_range, taken=taken, how_many=1)
    row = 0 if rank else profile.meeting_ports
    meeting = tcp_ports.lowest_row(port_range, taken=taken.union(serving), how_many=row)
    handed.update(serving, meeting)
    return Slot(
        node_id=site.node_id,
        rank=rank,
        http_port=serving[0],
        leader_port=meeting[0] if meeting else 0,
        gpu_indices=cards.choose(
            gpus=facts.gpus,
            free=site.free_of(profile.gpu_class),
            count=profile.cards_per_node,
        ),
        hcas=next((f.hcas for f in facts.fabrics if fabric and f.name == fabric), ()),
    )
