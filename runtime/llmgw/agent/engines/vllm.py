"""The vLLM driver: one ``vllm serve``, and over several nodes a Ray cluster or vLLM's own meeting.

Options as vLLM 0.13.0 to 0.33.0 and Ray 2.60.0 document them (``tests/data/engine_help``). It has
met no card yet: ``docs/reference/engine-drivers.md`` says what was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from llmgw.agent.engines import checks, environment, programs, split_serving
from llmgw.agent.engines.contract import Command, HelpQuestion, Place, StopPlan
from llmgw.config.tending import VllmSettings
from llmgw.domain.engine_options import POOLING, TOOL_PARSER, has_flag
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from llmgw.kit.addresses import Address

_QUIET = {"DO_NOT_TRACK": "1", "RAY_USAGE_STATS_ENABLED": "0", "VLLM_NO_USAGE_STATS": "1"}
"""Neither tells its makers how it is used."""


class Vllm:
    """Builds the processes of a vLLM shard."""

    name = "vllm"
    health_path = "/health"
    request_metrics = ("vllm:num_requests_running", "vllm:num_requests_waiting")
    work_metrics = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")

    def __init__(
        self,
        *,
        settings: VllmSettings,
        place: Place,
        stop_timeout_s: float,
        installed: Callable[[], Path | None] = lambda: None,
    ) -> None:
        """``installed`` finds the program that was installed here, at each start anew."""
        self._settings = settings
        self._place = place
        self.stop_plan = StopPlan.by_sigterm(stop_timeout_s)
        self._installed = installed

    def validate(self, profile: LaunchProfile, gpus: Sequence[Gpu]) -> None:
        """See ``Engine``."""
        split_serving.check(self.name, profile, gpus)

    def commands(self, spec: ShardSpec) -> tuple[Command, ...]:
        """See ``Engine``; with Ray only rank 0 has a vLLM, the others lend their cards to it."""
        checks.check_meeting(spec)
        if not self._has_ray(spec):
            return (self._server(spec),)
        if spec.rank != 0:
            return (self._ray(spec),)
        return (self._ray(spec), self._server(spec))

    def serves_http(self, spec: ShardSpec) -> bool:
        """See ``Engine``."""
        return spec.rank == 0

    def help_questions(self) -> tuple[HelpQuestion, ...]:
        """See ``Checkable``; the plain help of ``vllm serve`` is a summary."""
        no_card = {"VLLM_TARGET_DEVICE": "cpu", "COLUMNS": "200", **_QUIET}
        vllm = HelpQuestion("vllm", (*self._program(), "serve", "--help=all"), no_card)
        if self._settings.launch_mode != "ray":
            return (vllm,)
        return (vllm, HelpQuestion("ray", (*self._ray_program(), "start", "--help"), _QUIET))

    def _has_ray(self, spec: ShardSpec) -> bool:
        return spec.nnodes > 1 and self._settings.launch_mode == "ray"

    def _server(self, spec: ShardSpec) -> Command:
        profile, program = spec.profile, self._program()
        args = [*program[1:], "serve", profile.model_path]
        args += split_serving.options(spec, listen_addr=self._place.listen_addr)
        args += [*self._meeting(spec), *_generated(profile), *profile.args]
        return Command(
            name="vllm",
            path=program[0],
            args=tuple(args),
            env=self._environment(spec),
            wait_for_leader_port=spec.is_follower,
        )

    def _meeting(self, spec: ShardSpec) -> list[str]:
        if spec.nnodes <= 1:
            return []
        backend = ["--distributed-executor-backend", self._settings.launch_mode]
        if self._has_ray(spec):
            return backend
        headless = ["--headless"] if spec.rank != 0 else []
        nodes = split_serving.rank_options(spec)
        leader = ["--master-addr", spec.leader_addr, "--master-port", str(spec.leader_port)]
        return [*backend, *nodes, *leader, *headless]

    def _ray(self, spec: ShardSpec) -> Command:
        """``ray start``: the head opens the leader's port, the others join there."""
        program = self._ray_program()
        args = [*program[1:], "start", "--block", "--node-ip-address", self._place.listen_addr]
        if spec.rank == 0:
            args += ["--head", "--port", str(spec.leader_port), "--include-dashboard", "false"]
        else:
            args += ["--address", str(Address(spec.leader_addr, spec.leader_port))]
        args += ["--num-gpus", str(len(spec.gpu_indices)), "--disable-usage-stats"]
        return Command(
            name="ray",
            path=program[0],
            args=tuple(args),
            env=self._environment(spec),
            wait_for_leader_port=True,
        )

    def _environment(self, spec: ShardSpec) -> dict[str, str]:
        more = dict(_QUIET)
        if spec.nnodes > 1:
            # Its own address and never the leader's: vLLM tells nodes apart by it.
            more["VLLM_HOST_IP"] = self._place.listen_addr
        if self._has_ray(spec):
            more["RAY_ADDRESS"] = str(Address(spec.leader_addr, spec.leader_port))
        return environment.engine_environment(spec, place=self._place, more=more)

    def _program(self) -> tuple[str, ...]:
        return programs.vllm_program(
            self._settings, environ=self._place.environ, installed=self._installed()
        )

    def _ray_program(self) -> tuple[str, ...]:
        return programs.ray_program(
            self._settings, vllm=self._program()[0], environ=self._place.environ
        )


def _generated(profile: LaunchProfile) -> list[str]:
    """The flags that a profile may replace by its own."""
    args: list[str] = []
    if profile.context_length and not has_flag(profile.args, "--max-model-len"):
        args += ["--max-model-len", str(profile.context_length)]
    has_parser = has_flag(profile.args, TOOL_PARSER)
    if has_parser and not has_flag(profile.args, "--enable-auto-tool-choice"):
        args += ["--enable-auto-tool-choice"]
    if "embeddings" in profile.capabilities and not has_flag(profile.args, *POOLING["vllm"]):
        args += ["--runner", "pooling"]
    return args
