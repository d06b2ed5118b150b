"""Translates what a node says about itself: registrations and heartbeats.

What is absent in a value stays absent in the message and comes back absent.
"""

from __future__ import annotations

from collections.abc import Iterable

from llmgw.domain.fetch_status import FetchState, FetchStatus
from llmgw.domain.nodes import (
    EngineInstall,
    HeartbeatFacts,
    InstallState,
    LocalWeights,
    NodeFacts,
    Storage,
)
from llmgw.domain.replicas import RunningShard
from llmgw.domain.work import ShardWork
from llmgw.rpc import texts, wire_hardware, wire_shards
from llmgw.rpc.v1 import agent_pb2 as pb

_MS_PER_S = 1000


def pack_register(
    facts: NodeFacts, *, running: Iterable[RunningShard], term: int, instance: str
) -> pb.AgentMessage:
    """The first message of every stream: what the node is and what runs on it.

    ``instance`` tells this start of the agent from every other one.
    """
    register = pb.Register(
        node_id=facts.node_id,
        hostname=texts.repaired(facts.hostname),
        mgmt_addr=facts.mgmt_addr,
        labels=texts.repaired_values(facts.labels),
        gpus=map(wire_hardware.pack_gpu, facts.gpus),
        fabrics=map(wire_hardware.pack_fabric, facts.fabrics),
        agent_version=facts.agent_version,
        engine_versions=texts.repaired_values(facts.engine_versions),
        running_shards=map(wire_shards.pack_running, running),
        memory_total_mb=facts.memory_total_mb,
        weights=map(_pack_weights, facts.weights),
        storage=map(_pack_storage, facts.storage),
        host=wire_hardware.pack_host(facts.host),
        engines_probed=facts.engines_probed,
        port_range=_pack_ports(facts.port_range),
        term=term,
        provision=map(_pack_install, facts.engine_installs),
        instance=instance,
        heartbeat_interval_ms=_pack_seconds(facts.heartbeat_s),
        fabric_problems=map(texts.repaired, facts.fabric_problems),
        warnings=map(texts.repaired, facts.warnings),
        launch_modes=facts.launch_modes,
        fetches=map(_pack_fetch, facts.fetches),
    )
    return pb.AgentMessage(register=register)


def unpack_facts(register: pb.Register) -> NodeFacts:
    """What the node says about itself."""
    ports = register.port_range
    return NodeFacts(
        node_id=register.node_id,
        hostname=register.hostname,
        mgmt_addr=register.mgmt_addr,
        agent_version=register.agent_version,
        labels=dict(register.labels),
        gpus=tuple(map(wire_hardware.unpack_gpu, register.gpus)),
        fabrics=tuple(map(wire_hardware.unpack_fabric, register.fabrics)),
        host=wire_hardware.unpack_host(register.host),
        memory_total_mb=register.memory_total_mb if register.HasField("memory_total_mb") else None,
        storage=tuple(map(_unpack_storage, register.storage)),
        weights=tuple(map(_unpack_weights, register.weights)),
        engine_versions=dict(register.engine_versions),
        engines_probed=register.engines_probed,
        engine_installs=tuple(map(_unpack_install, register.provision)),
        port_range=(ports.first, ports.last) if register.HasField("port_range") else None,
        heartbeat_s=(
            register.heartbeat_interval_ms / _MS_PER_S
            if register.HasField("heartbeat_interval_ms")
            else None
        ),
        fabric_problems=tuple(register.fabric_problems),
        warnings=tuple(register.warnings),
        launch_modes=dict(register.launch_modes),
        fetches=tuple(map(_unpack_fetch, register.fetches)),
    )


def unpack_running(register: pb.Register) -> tuple[RunningShard, ...]:
    """The shards that live on the node, or whose weights it still fetches."""
    return tuple(map(wire_shards.unpack_running, register.running_shards))


def pack_heartbeat(*, node_id: str, beat: HeartbeatFacts) -> pb.AgentMessage:
    """One beat; a list is flagged as changed when the value holds one at all."""
    heartbeat = pb.Heartbeat(
        node_id=node_id,
        gpu_memory_used_mb=beat.gpu_memory_used_mib,
        new_problems=map(texts.repaired, beat.new_problems),
        storage=map(_pack_storage, beat.storage),
        weights_changed=beat.weights is not None,
        weights=map(_pack_weights, beat.weights or ()),
        memory_total_mb=beat.memory_total_mb,
        engines_changed=beat.engine_versions is not None,
        engine_versions=texts.repaired_values(beat.engine_versions or {}),
        provision_changed=beat.engine_installs is not None,
        provision=map(_pack_install, beat.engine_installs or ()),
        shard_work=map(_pack_work, beat.shard_work),
        gpu_gauges={i: wire_hardware.pack_gauges(g) for i, g in beat.gpu_gauges.items()},
        gpus_changed=beat.gpus is not None,
        gpus=map(wire_hardware.pack_gpu, beat.gpus or ()),
        fabrics_changed=beat.fabrics is not None,
        fabrics=map(wire_hardware.pack_fabric, beat.fabrics or ()),
        fabric_problems=map(texts.repaired, beat.fabric_problems),
        warnings_changed=beat.warnings is not None,
        warnings=map(texts.repaired, beat.warnings or ()),
        fetches_changed=beat.fetches is not None,
        fetches=map(_pack_fetch, beat.fetches or ()),
    )
    return pb.AgentMessage(heartbeat=heartbeat)


def unpack_heartbeat(message: pb.Heartbeat) -> HeartbeatFacts:
    """What changed since; a list without its flag was not sent."""
    return HeartbeatFacts(
        gpu_memory_used_mib=dict(message.gpu_memory_used_mb),
        new_problems=tuple(message.new_problems),
        storage=tuple(map(_unpack_storage, message.storage)),
        memory_total_mb=message.memory_total_mb if message.HasField("memory_total_mb") else None,
        weights=tuple(map(_unpack_weights, message.weights)) if message.weights_changed else None,
        engine_versions=dict(message.engine_versions) if message.engines_changed else None,
        engine_installs=(
            tuple(map(_unpack_install, message.provision)) if message.provision_changed else None
        ),
        shard_work=tuple(map(_unpack_work, message.shard_work)),
        gpu_gauges={i: wire_hardware.unpack_gauges(g) for i, g in message.gpu_gauges.items()},
        gpus=tuple(map(wire_hardware.unpack_gpu, message.gpus)) if message.gpus_changed else None,
        fabrics=(
            tuple(map(wire_hardware.unpack_fabric, message.fabrics))
            if message.fabrics_changed
            else None
        ),
        fabric_problems=tuple(message.fabric_problems),
        warnings=tuple(message.warnings) if message.warnings_changed else None,
        fetches=tuple(map(_unpack_fetch, message.fetches)) if message.fetches_changed else None,
    )


def _pack_storage(storage: Storage) -> pb.Storage:
    return pb.Storage(
        path=texts.repaired(storage.path),
        free_bytes=storage.free_bytes,
        total_bytes=storage.total_bytes,
        shared=storage.is_shared,
    )


def _unpack_storage(storage: pb.Storage) -> Storage:
    return Storage(
        path=storage.path,
        free_bytes=storage.free_bytes,
        total_bytes=storage.total_bytes,
        is_shared=storage.shared,
    )


def _pack_weights(weights: LocalWeights) -> pb.LocalWeights:
    return pb.LocalWeights(
        path=texts.repaired(weights.path), size_bytes=weights.size_bytes, shared=weights.is_shared
    )


def _unpack_weights(weights: pb.LocalWeights) -> LocalWeights:
    return LocalWeights(path=weights.path, size_bytes=weights.size_bytes, is_shared=weights.shared)


def _pack_install(install: EngineInstall) -> pb.ProvisionStatus:
    return pb.ProvisionStatus(
        engine=install.engine,
        version=install.version,
        variant=install.variant,
        state=str(install.state),
        detail=texts.repaired(install.detail)[: texts.MAX_LINE_CHARS],
        warning=texts.repaired(install.warning)[: texts.MAX_LINE_CHARS],
    )


def _unpack_install(status: pb.ProvisionStatus) -> EngineInstall:
    return EngineInstall(
        engine=status.engine,
        version=status.version,
        variant=status.variant,
        state=_INSTALL_STATES.get(status.state, InstallState.FAILED),
        detail=status.detail,
        warning=status.warning,
    )


_INSTALL_STATES = {str(state): state for state in InstallState}


def _pack_fetch(fetch: FetchStatus) -> pb.WeightsFetch:
    return pb.WeightsFetch(
        source=texts.repaired(fetch.source),
        name=texts.repaired(fetch.name),
        state=str(fetch.state),
        bytes_done=fetch.done_bytes,
        bytes_total=fetch.total_bytes,
        bytes_per_s=fetch.bytes_per_s,
        error=texts.repaired(fetch.error)[: texts.MAX_LINE_CHARS],
        ordered=fetch.is_ordered,
    )


def _unpack_fetch(fetch: pb.WeightsFetch) -> FetchStatus:
    return FetchStatus(
        source=fetch.source,
        name=fetch.name,
        state=_FETCH_STATES.get(fetch.state, FetchState.FETCHING),
        done_bytes=fetch.bytes_done,
        total_bytes=fetch.bytes_total if fetch.HasField("bytes_total") else None,
        bytes_per_s=fetch.bytes_per_s if fetch.HasField("bytes_per_s") else None,
        error=fetch.error,
        is_ordered=fetch.ordered,
    )


_FETCH_STATES = {str(state): state for state in FetchState}


def _pack_work(work: ShardWork) -> pb.ShardWork:
    return pb.ShardWork(
        shard_id=work.shard_id,
        cpu_time_ms=_pack_seconds(work.cpu_time_s),
        gpu_utilization_percent=work.gpu_utilization_percent,
        cpu_wait_ms=_pack_seconds(work.cpu_wait_s),
    )


def _unpack_work(work: pb.ShardWork) -> ShardWork:
    return ShardWork(
        shard_id=work.shard_id,
        cpu_time_s=work.cpu_time_ms / _MS_PER_S if work.HasField("cpu_time_ms") else None,
        gpu_utilization_percent=(
            work.gpu_utilization_percent if work.HasField("gpu_utilization_percent") else None
        ),
        cpu_wait_s=work.cpu_wait_ms / _MS_PER_S if work.HasField("cpu_wait_ms") else None,
    )


def _pack_ports(ports: tuple[int, int] | None) -> pb.PortRange | None:
    return None if ports is None else pb.PortRange(first=ports[0], last=ports[1])


def _pack_seconds(duration_s: float | None) -> int | None:
    return None if duration_s is None else round(duration_s * _MS_PER_S)
