"""The driver of our own sim engine: an OpenAI-shaped server without a model, for trials."""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.agent.engines import checks, environment, programs
from llmgw.agent.engines.contract import Command, HelpQuestion, Place, StopPlan
from llmgw.config.tending import SimSettings
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from llmgw.kit.addresses import Address


class Sim:
    """Builds the one process of a sim shard; several ranks meet as SGLang's do."""

    name = "sim"
    health_path = "/health"
    request_metrics = ("vllm:num_requests_running", "vllm:num_requests_waiting")
    work_metrics = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")

    def __init__(self, *, settings: SimSettings, place: Place, stop_timeout_s: float) -> None:
        """``stop_timeout_s`` is how long it may finish what it has after SIGTERM."""
        self._settings = settings
        self._place = place
        self.stop_plan = StopPlan.by_sigterm(stop_timeout_s)

    def validate(self, profile: LaunchProfile, gpus: Sequence[Gpu]) -> None:
        """See ``Engine``."""
        problems = checks.shape(profile, gpus)
        checks.refuse(profile, [*problems, *checks.options(self.name, profile)])

    def commands(self, spec: ShardSpec) -> tuple[Command, ...]:
        """See ``Engine``."""
        checks.check_meeting(spec)
        program = programs.sim_program(self._settings)
        listen = str(Address(self._place.listen_addr, spec.http_port))
        args = (
            *program[1:],
            "sim-engine",
            *("--listen", listen, "--model", spec.profile.served_model_name),
            *_rendezvous(spec),
            *spec.profile.args,
        )
        command = Command(
            name="sim-engine",
            path=program[0],
            args=args,
            env=environment.engine_environment(spec, place=self._place),
            wait_for_leader_port=spec.is_follower,
        )
        return (command,)

    def serves_http(self, spec: ShardSpec) -> bool:
        """See ``Engine``; workers only take part."""
        return spec.rank == 0

    def help_questions(self) -> tuple[HelpQuestion, ...]:
        """See ``Checkable``."""
        words = (*programs.sim_program(self._settings), "sim-engine", "--help")
        return (HelpQuestion("sim-engine", words),)


def _rendezvous(spec: ShardSpec) -> tuple[str, ...]:
    if spec.nnodes <= 1:
        return ()
    leader = str(Address(spec.leader_addr, spec.leader_port))
    return ("--nnodes", str(spec.nnodes), "--node-rank", str(spec.rank), "--dist-init-addr", leader)
