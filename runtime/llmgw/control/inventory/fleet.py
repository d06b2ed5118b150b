"""Nodes as they report themselves: what a registration, a heartbeat and a lost stream change; pure.

Operator's flags and what runs on a node are never changed by what the node says of itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llmgw.domain.nodes import (
    Gpu,
    GpuGauges,
    HeartbeatFacts,
    Liveness,
    Node,
    NodeFacts,
    NodeTarget,
)

MOST_PROBLEMS = 32
"""The newest that heartbeats told are kept: one that says another each time would fill the book."""


def registered(held: Node | None, facts: NodeFacts, *, now: float) -> Node:
    """The node after it registered: its facts are replaced whole, its flags stay."""
    if held is None:
        return Node(facts=facts, last_seen_at=now)
    return replace(
        held,
        facts=facts,
        last_seen_at=now,
        liveness=Liveness.READY,
        is_connected=True,
        disconnected_at=None,
        problems=(),
    )


def heard(node: Node, beat: HeartbeatFacts, *, now: float) -> Node:
    """The node after a heartbeat; what the beat does not say stays as it was."""
    facts = node.facts
    gpus = facts.gpus if beat.gpus is None else beat.gpus
    has_fabrics = beat.fabrics is not None
    return replace(
        node,
        last_seen_at=now,
        liveness=Liveness.READY,
        problems=tuple(dict.fromkeys((*node.problems, *beat.new_problems)))[-MOST_PROBLEMS:],
        facts=replace(
            facts,
            gpus=_gauged(gpus, memory_used_mib=beat.gpu_memory_used_mib, gauges=beat.gpu_gauges),
            fabrics=facts.fabrics if beat.fabrics is None else beat.fabrics,
            fabric_problems=beat.fabric_problems if has_fabrics else facts.fabric_problems,
            warnings=facts.warnings if beat.warnings is None else beat.warnings,
            storage=beat.storage or facts.storage,
            memory_total_mb=beat.memory_total_mb or facts.memory_total_mb,
            weights=facts.weights if beat.weights is None else beat.weights,
            engine_versions=(
                facts.engine_versions if beat.engine_versions is None else beat.engine_versions
            ),
            engines_probed=facts.engines_probed or beat.engine_versions is not None,
            engine_installs=(
                facts.engine_installs if beat.engine_installs is None else beat.engine_installs
            ),
            fetches=facts.fetches if beat.fetches is None else beat.fetches,
        ),
    )


def flagged(node: Node, *, target: NodeTarget, reason: str, actor: str = "") -> Node:
    """The node after an operator's word; the same word again keeps its reason unless it has one."""
    is_same = target is wanted_of(node)
    return replace(
        node,
        is_cordoned=target is NodeTarget.CORDONED,
        is_draining=target is NodeTarget.DRAINING,
        flag_reason="" if target is NodeTarget.READY else reason or node.flag_reason * is_same,
        flag_actor="" if target is NodeTarget.READY else actor,
    )


def wanted_of(node: Node) -> NodeTarget:
    """What an operator last said of the node."""
    if node.is_draining:
        return NodeTarget.DRAINING
    return NodeTarget.CORDONED if node.is_cordoned else NodeTarget.READY


def disconnected(node: Node, *, now: float) -> Node:
    """The node after its stream ended; silence alone makes it unreachable."""
    return replace(node, is_connected=False, disconnected_at=now)


def qualifies_anew(before: NodeFacts, after: NodeFacts) -> bool:
    """Whether a heartbeat told something that may let a node take what it could not take."""
    return (
        before.engine_versions != after.engine_versions
        or before.fabrics != after.fabrics
        or _fitness(before.gpus) != _fitness(after.gpus)
        or before.memory_total_mb != after.memory_total_mb
        or before.weights != after.weights
    )


def excused(nodes: Mapping[str, Node], *, stalled_s: float, now: float) -> Mapping[str, Node]:
    """All nodes after the control plane itself stood still: that was not their silence."""
    return {
        node_id: replace(node, last_seen_at=min(now, node.last_seen_at + stalled_s))
        for node_id, node in nodes.items()
    }


def _fitness(gpus: tuple[Gpu, ...]) -> list[tuple[str, bool]]:
    """Which cards there are, and whether each may be used."""
    return [(gpu.uuid, not gpu.problems) for gpu in gpus]


def _gauged(
    gpus: tuple[Gpu, ...], *, memory_used_mib: Mapping[int, int], gauges: Mapping[int, GpuGauges]
) -> tuple[Gpu, ...]:
    """The cards with what a beat measured; one that it leaves out stays as it was."""
    return tuple(
        replace(
            _with_gauges(gpu, gauges.get(gpu.index)),
            memory_used_mib=memory_used_mib.get(gpu.index, gpu.memory_used_mib),
        )
        for gpu in gpus
    )


def _with_gauges(gpu: Gpu, gauges: GpuGauges | None) -> Gpu:
    if gauges is None:
        return gpu
    return replace(
        gpu,
        utilization_percent=gauges.utilization_percent,
        temperature_c=gauges.temperature_c,
        power_watts=gauges.power_watts,
    )
