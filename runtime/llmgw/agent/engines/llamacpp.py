"""The llama.cpp driver: ``llama-server`` or a program that takes its flags.

It answers any model name (the gateway checks names) and does not end on SIGTERM while a request is
open, hence the stop plan (seen on b10991 and on xllamacpp 2026.10).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from llmgw.agent.engines import checks, environment, programs
from llmgw.agent.engines.contract import Command, HelpQuestion, Place, StopPlan, StopStep
from llmgw.config.tending import LlamaCppSettings
from llmgw.domain.engine_options import flag_value, has_flag
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from llmgw.errors import Invalid

_ALL_LAYERS = "999"


class LlamaCpp:
    """Builds the one process of a llama.cpp shard."""

    name = "llamacpp"
    health_path = "/health"
    request_metrics = ("llamacpp:requests_processing", "llamacpp:requests_deferred")
    work_metrics = ("llamacpp:n_decode_total", "llamacpp:tokens_predicted_total")
    stop_plan = StopPlan((StopStep(signal.SIGTERM, 5.0), StopStep(signal.SIGTERM, 2.0)))

    def __init__(
        self,
        *,
        settings: LlamaCppSettings,
        place: Place,
        installed: Callable[[], Path | None] = lambda: None,
    ) -> None:
        """``installed`` finds the program that was installed here, at each start anew."""
        self._settings = settings
        self._place = place
        self._installed = installed

    def validate(self, profile: LaunchProfile, gpus: Sequence[Gpu]) -> None:
        """See ``Engine``; one node and no tensor parallelism."""
        problems = checks.shape(profile, gpus)
        if profile.nodes > 1:
            problems.append("llama.cpp runs on one node only")
        if profile.tp > 1:
            problems.append("llama.cpp has no tensor parallelism; set tp to 1")
        problems += checks.options(self.name, profile)
        if _own_parallel(profile) == 0:
            problems.append("--parallel needs a number of at least 1")
        checks.refuse(profile, problems)

    def commands(self, spec: ShardSpec) -> tuple[Command, ...]:
        """See ``Engine``; the profile's own arguments come last, so that they win."""
        program = self._program()
        args = (
            *program[1:],
            *("--model", _model_file(spec.profile.model_path)),
            *("--host", self._place.listen_addr, "--port", str(spec.http_port)),
            "--metrics",
            *self._generated(spec),
            *spec.profile.args,
        )
        env = environment.engine_environment(spec, place=self._place)
        return (Command(name="llama-server", path=program[0], args=args, env=env),)

    def serves_http(self, spec: ShardSpec) -> bool:
        """See ``Engine``; there is only rank 0."""
        return spec.rank == 0

    def help_questions(self) -> tuple[HelpQuestion, ...]:
        """See ``Checkable``."""
        return (HelpQuestion("llama-server", (*self._program(), "--help")),)

    def _generated(self, spec: ShardSpec) -> list[str]:
        """The flags that a profile may replace by its own."""
        profile, args = spec.profile, []
        if not has_flag(profile.args, "--jinja", "--no-jinja"):
            args += ["--jinja"]
        if profile.served_model_name:
            args += ["--alias", profile.served_model_name]
        parallel = self._parallel(profile)
        if not has_flag(profile.args, "--parallel", "-np"):
            args += ["--parallel", str(parallel)]
        if profile.context_length and not has_flag(profile.args, "--ctx-size", "-c"):
            # llama.cpp splits its context over the slots; the catalog's figure is one request's.
            args += ["--ctx-size", str(profile.context_length * parallel)]
        if spec.gpu_indices and not has_flag(
            profile.args, "--n-gpu-layers", "--gpu-layers", "-ngl"
        ):
            args += ["--n-gpu-layers", _ALL_LAYERS]
        if "embeddings" in profile.capabilities:
            args += _embeddings(profile.args)
        return args

    def _parallel(self, profile: LaunchProfile) -> int:
        return _own_parallel(profile) or self._settings.parallel

    def _program(self) -> tuple[str, ...]:
        return programs.llamacpp_program(
            self._settings, environ=self._place.environ, installed=self._installed()
        )


def _own_parallel(profile: LaunchProfile) -> int | None:
    """The slots that the profile asks for; nothing if it leaves them to us, 0 if they are none."""
    if not has_flag(profile.args, "--parallel", "-np"):
        return None
    value = flag_value(profile.args, "--parallel", "-np") or ""
    return int(value) if value.isdecimal() else 0


def _embeddings(own: Sequence[str]) -> list[str]:
    """Without these llama.cpp answers 501; chat goes on working beside them."""
    args = [] if has_flag(own, "--embeddings", "--embedding") else ["--embeddings"]
    return args if has_flag(own, "--pooling") else [*args, "--pooling", "mean"]


def _model_file(model_path: str) -> str:
    """The file itself, or the first ``.gguf`` of a folder, which is where a split model begins."""
    folder = Path(model_path)
    if not folder.is_dir():
        return model_path
    try:
        parts = sorted(p for p in folder.iterdir() if p.suffix.lower() == ".gguf")
    except OSError as error:
        raise Invalid(f"{model_path} cannot be read: {error.strerror}") from error
    if not parts:
        raise Invalid(f"{model_path} holds no .gguf file, which is what llama.cpp loads")
    return str(parts[0])
