"""Translates what is said about shards: orders, running shards, reports, log tails.

States are mapped by name, never by number. A message that makes no sense raises ``Invalid``.
"""

from __future__ import annotations

from collections.abc import Iterable

from llmgw.domain.replicas import (
    FetchProgress,
    LaunchProfile,
    RunningShard,
    ShardReport,
    ShardSpec,
    ShardState,
)
from llmgw.errors import Invalid
from llmgw.rpc import texts
from llmgw.rpc.v1 import agent_pb2 as pb

_STATE_NUMBERS = {s: pb.ShardState.Value(f"SHARD_STATE_{s.name}") for s in ShardState}
_STATES: dict[int, ShardState] = {number: state for state, number in _STATE_NUMBERS.items()}


def pack_start(spec: ShardSpec, *, term: int) -> pb.ControlMessage:
    """The order to start one shard."""
    start = pb.StartShard(
        replica_id=spec.replica_id,
        shard_id=spec.shard_id,
        rank=spec.rank,
        nnodes=spec.nnodes,
        leader_addr=spec.leader_addr,
        leader_port=spec.leader_port,
        gpu_indices=spec.gpu_indices,
        hcas=spec.hcas,
        mgmt_interface=spec.mgmt_interface,
        http_port=spec.http_port,
        profile=_pack_profile(spec.profile),
        startup_timeout_ms=round(spec.startup_timeout_s * 1000),
        pool=spec.pool,
        fabric=spec.fabric,
        profile_fp=spec.profile_fp,
        term=term,
    )
    return pb.ControlMessage(start=start)


def unpack_start(start: pb.StartShard) -> ShardSpec:
    """What to start."""
    return ShardSpec(
        replica_id=start.replica_id,
        shard_id=start.shard_id,
        profile=_unpack_profile(start.profile),
        http_port=start.http_port,
        rank=start.rank,
        nnodes=start.nnodes,
        leader_addr=start.leader_addr,
        leader_port=start.leader_port,
        gpu_indices=tuple(start.gpu_indices),
        hcas=tuple(start.hcas),
        mgmt_interface=start.mgmt_interface,
        startup_timeout_s=start.startup_timeout_ms / 1000,
        pool=start.pool,
        fabric=start.fabric,
        profile_fp=start.profile_fp,
    )


def pack_stop(shard_id: str, *, term: int) -> pb.ControlMessage:
    """The order to stop one shard."""
    return pb.ControlMessage(stop=pb.StopShard(shard_id=shard_id, term=term))


def pack_drain(shard_id: str, *, term: int) -> pb.ControlMessage:
    """The order to take no new work on one shard."""
    return pb.ControlMessage(drain=pb.DrainShard(shard_id=shard_id, term=term))


def pack_report(report: ShardReport) -> pb.AgentMessage:
    """Where one shard stands, with the tail of its output where it failed."""
    status = pb.ShardStatus(
        node_id=report.node_id,
        replica_id=report.replica_id,
        shard_id=report.shard_id,
        state=_STATE_NUMBERS[report.state],
        error=texts.repaired(report.error)[: texts.MAX_LINE_CHARS],
        exit_code=report.exit_code,
        last_output=texts.cap_lines(report.last_output),
        fetch=_pack_fetch(report.fetch),
        drained=report.is_drained,
    )
    return pb.AgentMessage(shard=status)


def unpack_report(status: pb.ShardStatus, *, node_id: str) -> ShardReport:
    """The report, of the node whose stream it came on, whatever it claims."""
    return ShardReport(
        node_id=node_id,
        replica_id=status.replica_id,
        shard_id=status.shard_id,
        state=_state(status.state, shard_id=status.shard_id),
        error=status.error[: texts.MAX_LINE_CHARS],
        exit_code=status.exit_code if status.HasField("exit_code") else None,
        last_output=tuple(texts.cap_lines(status.last_output)),
        fetch=_unpack_fetch(status.fetch) if status.HasField("fetch") else None,
        is_drained=status.drained,
    )


def pack_running(shard: RunningShard) -> pb.RunningShard:
    """One shard of a registration."""
    return pb.RunningShard(
        replica_id=shard.replica_id,
        shard_id=shard.shard_id,
        rank=shard.rank,
        nnodes=shard.nnodes,
        gpu_indices=shard.gpu_indices,
        hcas=shard.hcas,
        http_port=shard.http_port,
        state=_STATE_NUMBERS[shard.state],
        model=shard.model,
        profile=shard.profile,
        pool=shard.pool,
        fabric=shard.fabric,
        leader_addr=shard.leader_addr,
        leader_port=shard.leader_port,
        profile_fp=shard.profile_fp,
    )


def unpack_running(shard: pb.RunningShard) -> RunningShard:
    """One shard that lives on the node, or whose weights it still fetches."""
    return RunningShard(
        replica_id=shard.replica_id,
        shard_id=shard.shard_id,
        state=_state(shard.state, shard_id=shard.shard_id),
        model=shard.model,
        profile=shard.profile,
        rank=shard.rank,
        nnodes=shard.nnodes,
        gpu_indices=tuple(shard.gpu_indices),
        hcas=tuple(shard.hcas),
        http_port=shard.http_port,
        leader_addr=shard.leader_addr,
        leader_port=shard.leader_port,
        pool=shard.pool,
        fabric=shard.fabric,
        profile_fp=shard.profile_fp,
    )


def pack_logs(
    *, request_id: str, lines: Iterable[str], sources: Iterable[str], error: str = ""
) -> pb.AgentMessage:
    """The answer to one question for a log's tail."""
    reply = pb.LogsReply(
        request_id=request_id,
        lines=texts.cap_lines(lines),
        sources=sources,
        error=texts.repaired(error),
    )
    return pb.AgentMessage(logs=reply)


def _pack_profile(profile: LaunchProfile) -> pb.EngineProfile:
    return pb.EngineProfile(
        name=profile.name,
        engine=profile.engine,
        gpu_class=profile.gpu_class,
        tp=profile.tp,
        pp=profile.pp,
        gpus_per_node=profile.gpus_per_node,
        nodes=profile.nodes,
        args=profile.args,
        env=profile.env,
        model_path=profile.model_path,
        served_model_name=profile.served_model_name,
        capabilities=profile.capabilities,
        context_length=profile.context_length,
    )


def _unpack_profile(profile: pb.EngineProfile) -> LaunchProfile:
    return LaunchProfile(
        name=profile.name,
        engine=profile.engine,
        model_path=profile.model_path,
        served_model_name=profile.served_model_name,
        gpu_class=profile.gpu_class,
        tp=profile.tp,
        pp=profile.pp,
        nodes=profile.nodes,
        gpus_per_node=profile.gpus_per_node,
        args=tuple(profile.args),
        env=dict(profile.env),
        capabilities=tuple(profile.capabilities),
        context_length=profile.context_length if profile.HasField("context_length") else None,
    )


def _pack_fetch(fetch: FetchProgress | None) -> pb.FetchProgress | None:
    if fetch is None:
        return None
    return pb.FetchProgress(
        source=texts.repaired(fetch.source),
        bytes_done=fetch.done_bytes,
        bytes_total=fetch.total_bytes,
        bytes_per_s=fetch.bytes_per_s,
    )


def _unpack_fetch(fetch: pb.FetchProgress) -> FetchProgress:
    total = fetch.bytes_total if fetch.HasField("bytes_total") else None
    return FetchProgress(
        source=fetch.source,
        done_bytes=fetch.bytes_done,
        total_bytes=total,
        bytes_per_s=fetch.bytes_per_s if fetch.HasField("bytes_per_s") else None,
    )


def _state(number: int, *, shard_id: str) -> ShardState:
    state = _STATES.get(number)
    if state is None:
        raise Invalid(f"shard {shard_id!r} is reported in state {number}, which does not exist")
    return state
