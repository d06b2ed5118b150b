"""Sums the views of nodes, models and replicas into the one-page status; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from llmgw.domain.replicas import ReplicaState
from llmgw.domain.status_views import (
    ClassTotals,
    ControlView,
    FabricTotals,
    IdleReplica,
    StatusView,
    Unplaced,
)
from llmgw.domain.views import GpuUse, ModelView, NodeView, ReplicaView

IDLE_AFTER_S = 60.0
"""A replica that was used more recently than this is not worth a line."""


def summarise(
    *,
    control: ControlView,
    nodes: Sequence[NodeView],
    models: Sequence[ModelView],
    replicas: Sequence[ReplicaView],
) -> StatusView:
    """The status page of these views; the same figures as counting their tables by hand."""
    return StatusView(
        control=control,
        nodes_by_state=_counted(n.state for n in nodes),
        models_by_status=_counted(str(m.status) for m in models),
        replicas_by_state=_counted(str(r.state) for r in replicas),
        gpu_classes=_class_totals(nodes),
        fabrics=_fabric_totals(nodes),
        unplaced=tuple(Unplaced(model=m.name, reason=m.reason) for m in models if _is_short(m)),
        idle=_idle(replicas),
    )


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


def _class_totals(nodes: Sequence[NodeView]) -> tuple[ClassTotals, ...]:
    counts = Counter((gpu.gpu_class, gpu.use) for node in nodes for gpu in node.gpus)
    return tuple(
        ClassTotals(
            gpu_class=name,
            used=counts[name, GpuUse.USED],
            free=counts[name, GpuUse.FREE],
            unhealthy=counts[name, GpuUse.UNHEALTHY],
        )
        for name in sorted({gpu_class for gpu_class, _ in counts})
    )


def _fabric_totals(nodes: Sequence[NodeView]) -> tuple[FabricTotals, ...]:
    names = sorted({f.name for node in nodes for f in node.fabrics})
    members = {name: [n for n in nodes if any(f.name == name for f in n.fabrics)] for name in names}
    return tuple(
        FabricTotals(
            fabric=name,
            nodes=len(members[name]),
            whole_free_nodes=sum(map(_is_whole_free, members[name])),
        )
        for name in names
    )


def _is_whole_free(node: NodeView) -> bool:
    return (
        node.state == "ready" and bool(node.gpus) and all(g.use is GpuUse.FREE for g in node.gpus)
    )


def _is_short(model: ModelView) -> bool:
    return model.ready + model.starting < model.want


def _idle(replicas: Sequence[ReplicaView]) -> tuple[IdleReplica, ...]:
    idle = [
        IdleReplica(replica_id=r.replica_id, model=r.model, idle_s=r.idle_s)
        for r in replicas
        if r.state is ReplicaState.READY and r.idle_s is not None and r.idle_s >= IDLE_AFTER_S
    ]
    return tuple(sorted(idle, key=lambda r: (-r.idle_s, r.replica_id)))
