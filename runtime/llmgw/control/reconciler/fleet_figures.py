"""The fleet in figures at one instant; pure. What is unknown gets no sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from llmgw.control.reconciler import gates, showing, wanting
from llmgw.domain import summaries
from llmgw.domain.replicas import ReplicaState
from llmgw.domain.snapshots import Snapshot
from llmgw.domain.status_views import ControlView
from llmgw.domain.views import GpuView, NodeView, ReplicaView
from llmgw.kit import metrics
from llmgw.kit.metrics import Sample

_MIB = 1024 * 1024
_PLACEMENT = "placement"
"""Every gate is open, and no node takes it."""


def of(snapshot: Snapshot, *, control: ControlView) -> Iterator[Sample]:
    """All samples; a standby, which hears no agents, has those of itself alone."""
    yield Sample("llmgw_leader", (), float(control.is_leader))
    if control.term:
        yield Sample("llmgw_leader_term", (), control.term)
    if not control.is_leader:
        return
    yield Sample("llmgw_brake_active", (), float(snapshot.brake.is_on))
    nodes, replicas = showing.nodes(snapshot), showing.replicas(snapshot)
    models = showing.models(snapshot, refusals={})
    status = summaries.summarise(control=control, nodes=nodes, models=models, replicas=replicas)
    yield Sample("llmgw_agent_streams", (), sum(node.is_connected for node in nodes))
    for gateway in control.gateways:
        yield Sample("llmgw_gateway_connected", (gateway.name,), float(gateway.is_connected))
    for node in nodes:
        yield from _of_node(node)
    yield from _of_links(snapshot)
    for totals in status.gpu_classes:
        for state in ("free", "used", "unhealthy"):
            yield Sample("llmgw_gpus", (totals.gpu_class, state), getattr(totals, state))
    for fabric in status.fabrics:
        yield Sample("llmgw_fabric_free_nodes", (fabric.fabric,), fabric.whole_free_nodes)
    yield from metrics.counts("llmgw_replicas", status.replicas_by_state)
    yield from _of_replicas(replicas)
    yield from _of_models(snapshot, replicas)


def _of_node(node: NodeView) -> Iterator[Sample]:
    name = node.node_id
    yield Sample("llmgw_node_up", (name, node.state), float(node.state == "ready"))
    yield Sample("llmgw_node_last_seen_seconds", (name,), node.last_seen_s)
    own = [storage for storage in node.storage if not storage.is_shared]
    if own:
        yield Sample("llmgw_node_disk_free_bytes", (name,), sum(s.free_bytes for s in own))
        yield Sample("llmgw_node_disk_total_bytes", (name,), sum(s.total_bytes for s in own))
    if node.memory_total_mb is not None:
        total, claimed = node.memory_total_mb * _MIB, node.memory_claimed_mb * _MIB
        yield Sample("llmgw_node_memory_total_bytes", (name,), total)
        yield Sample("llmgw_node_memory_claimed_bytes", (name,), claimed)
    for install in node.engine_installs:
        yield Sample("llmgw_engine_install", (name, install.engine, install.state), 1)
    for gpu in node.gpus:
        yield from _of_gpu(name, gpu)


def _of_gpu(node: str, gpu: GpuView) -> Iterator[Sample]:
    labels = (node, str(gpu.index), gpu.gpu_class)
    told = (
        ("llmgw_gpu_memory_total_bytes", gpu.memory_total_mib, float(_MIB)),
        ("llmgw_gpu_memory_used_bytes", gpu.memory_used_mib, float(_MIB)),
        ("llmgw_gpu_utilization_ratio", gpu.utilization_percent, 0.01),
        ("llmgw_gpu_temperature_celsius", gpu.temperature_c, 1.0),
    )
    for name, value, unit in told:
        if value is not None:
            yield Sample(name, labels, value * unit)
    yield Sample("llmgw_gpu_problems", labels, len(gpu.problems))


def _of_links(snapshot: Snapshot) -> Iterator[Sample]:
    for node_id, node in snapshot.cluster.nodes.items():
        for gpu in node.facts.gpus:
            if gpu.nvlink_peers is not None:
                labels = (node_id, str(gpu.index))
                yield Sample("llmgw_gpu_nvlink_peers", labels, len(gpu.nvlink_peers))


def _of_replicas(replicas: Sequence[ReplicaView]) -> Iterator[Sample]:
    for replica in replicas:
        labels = (replica.replica_id, replica.model)
        if replica.idle_s is not None:
            yield Sample("llmgw_replica_idle_seconds", labels, replica.idle_s)
        yield Sample("llmgw_replica_stale_profile", labels, float(replica.is_stale_profile))


def _of_models(snapshot: Snapshot, replicas: Sequence[ReplicaView]) -> Iterator[Sample]:
    placed = Counter(replica.model for replica in replicas)
    ready = Counter(r.model for r in replicas if r.state is ReplicaState.READY)
    counting = wanting.counting(snapshot.cluster.replicas.values())
    for name, model in snapshot.catalog.models.items():
        running = len(counting.get(name, ()))
        wanted = wanting.wanted(model, running=running, asked=snapshot.asked)
        if wanted or placed[name]:
            yield Sample("llmgw_model_replicas_ready", (name,), ready[name])
        if wanted > running:
            shut = [g.name for g in gates.of(model, snapshot, running=running) if not g.is_open]
            gate = shut[0] if shut else _PLACEMENT
            yield Sample("llmgw_model_unplaced", (name, gate), wanted - running)
