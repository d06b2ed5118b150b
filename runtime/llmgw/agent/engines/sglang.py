"""The SGLang driver: one ``sglang.launch_server`` a rank; ranks meet at the first one's port.

Options as SGLang 0.5.2 to 0.5.23 document them (``tests/data/engine_help``). It has met no card
yet: ``docs/reference/engine-drivers.md`` says what was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from llmgw.agent.engines import checks, environment, programs, split_serving
from llmgw.agent.engines.contract import Command, HelpQuestion, Place, StopPlan
from llmgw.config.tending import SglangSettings
from llmgw.domain.engine_options import POOLING, has_flag
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from llmgw.kit.addresses import Address

_LAUNCH = ("-m", "sglang.launch_server")

_HEALTH = {"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false"}
"""Else ``/health`` waits for a token: silent for as long as a step of a long prompt takes."""


class Sglang:
    """Builds the one process of an SGLang shard."""

    name = "sglang"
    health_path = "/health"
    request_metrics = ("sglang:num_running_reqs", "sglang:num_queue_reqs")
    work_metrics = (
        "sglang:realtime_tokens_total",
        "sglang:generation_tokens_total",
        "sglang:prompt_tokens_total",
    )

    def __init__(
        self,
        *,
        settings: SglangSettings,
        place: Place,
        stop_timeout_s: float,
        installed: Callable[[], Path | None] = lambda: None,
    ) -> None:
        """``installed`` finds the Python that SGLang was installed for, at each start anew."""
        self._settings = settings
        self._place = place
        self.stop_plan = StopPlan.by_sigterm(stop_timeout_s)
        self._installed = installed

    def validate(self, profile: LaunchProfile, gpus: Sequence[Gpu]) -> None:
        """See ``Engine``."""
        split_serving.check(self.name, profile, gpus)

    def commands(self, spec: ShardSpec) -> tuple[Command, ...]:
        """See ``Engine``; every rank has a port, and only rank 0 answers requests on it."""
        checks.check_meeting(spec)
        profile, program = spec.profile, self._program()
        args = [*program[1:], *_LAUNCH, "--model-path", profile.model_path]
        args += split_serving.options(spec, listen_addr=self._place.listen_addr)
        args += [*_meeting(spec), *_generated(profile), *profile.args]
        command = Command(
            name="sglang",
            path=program[0],
            args=tuple(args),
            env=environment.engine_environment(spec, place=self._place, more=_HEALTH),
            wait_for_leader_port=spec.is_follower,
        )
        return (command,)

    def serves_http(self, spec: ShardSpec) -> bool:
        """See ``Engine``; other ranks answer questions about their health and nothing else."""
        return spec.rank == 0

    def help_questions(self) -> tuple[HelpQuestion, ...]:
        """See ``Checkable``."""
        words = (*self._program(), *_LAUNCH, "--help")
        return (HelpQuestion("sglang", words, {"COLUMNS": "200"}),)

    def _program(self) -> tuple[str, ...]:
        return programs.sglang_program(
            self._settings, environ=self._place.environ, installed=self._installed()
        )


def _meeting(spec: ShardSpec) -> list[str]:
    if spec.nnodes <= 1:
        return []
    leader = str(Address(spec.leader_addr, spec.leader_port))
    return [*split_serving.rank_options(spec), "--dist-init-addr", leader]


def _generated(profile: LaunchProfile) -> list[str]:
    """The flags that a profile may replace by its own."""
    args: list[str] = []
    if profile.context_length and not has_flag(profile.args, "--context-length"):
        args += ["--context-length", str(profile.context_length)]
    if not has_flag(profile.args, "--enable-metrics"):
        # Without it there is no page of figures, and a gateway could not tell busy from idle.
        args += ["--enable-metrics"]
    if "embeddings" in profile.capabilities and not has_flag(profile.args, *POOLING["sglang"]):
        args += ["--is-embedding"]
    return args
