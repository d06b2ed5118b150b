"""What a shard is told about as: listings and sentences made from its spec and its end."""

from __future__ import annotations

import signal

from llmgw.agent.supervisor import port_owner
from llmgw.agent.supervisor.adoption import Record
from llmgw.agent.supervisor.interviewing import HttpCheck
from llmgw.domain.replicas import RunningShard, ShardSpec, ShardState
from llmgw.kit import proctable


def running(spec: ShardSpec, state: ShardState) -> RunningShard:
    """The shard as an agent lists it when it registers."""
    return RunningShard(
        replica_id=spec.replica_id,
        shard_id=spec.shard_id,
        state=state,
        model=spec.profile.served_model_name,
        profile=spec.profile.name,
        rank=spec.rank,
        nnodes=spec.nnodes,
        gpu_indices=spec.gpu_indices,
        hcas=spec.hcas,
        http_port=spec.http_port,
        leader_addr=spec.leader_addr,
        leader_port=spec.leader_port,
        pool=spec.pool,
        fabric=spec.fabric,
        profile_fp=spec.profile_fp,
    )


def exit_sentence(name: str, code: int | None) -> str:
    """How an engine ended that nobody asked to; a negative code is the signal that killed it."""
    if code is None:
        return f"{name} ended; its exit code is unknown, because an earlier agent started it"
    if code >= 0:
        return f"{name} ended unexpectedly with exit code {code}"
    hint = "; perhaps the machine ran out of memory" if -code == signal.SIGKILL else ""
    return f"{name} was killed by {_signal_name(-code)}{hint}"


def ended_unseen(record: Record, check: HttpCheck | None) -> str:
    """What is known of an engine that was found dead, or half started, by the next agent.

    One that had not served yet may have met a stranger on its port, which is no fault of it.
    """
    if record.boot_id != proctable.boot_id():
        return "the machine was restarted"
    if not record.is_launched:
        return "the agent ended while it was starting the engine"
    error = "the engine ended while no agent was running, so that its exit code is unknown"
    was_loading = record.ready_at is None
    return port_owner.blamed(check, error) if was_loading and check is not None else error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
