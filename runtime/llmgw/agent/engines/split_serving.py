"""What the drivers of vLLM and SGLang have in common: both split a model over cards and serve it.

Options that both take by the same name, and the checks that both make.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.agent.engines import checks
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardSpec


def check(engine: str, profile: LaunchProfile, gpus: Sequence[Gpu]) -> None:
    """Raise ``Invalid``, with all that is wrong, when the profile cannot run on these cards."""
    problems = [*checks.shape(profile, gpus), *checks.fp8(profile, gpus)]
    if not gpus:
        problems.append(f"{engine} needs cards; give the profile a gpu_class")
    problems += checks.options(engine, profile)
    checks.refuse(profile, problems)


def options(spec: ShardSpec, *, listen_addr: str) -> list[str]:
    """Where it listens, over how many cards the model is cut, and by which name it is served."""
    profile = spec.profile
    args = ["--host", listen_addr, "--port", str(spec.http_port)]
    args += ["--tensor-parallel-size", str(profile.tp)]
    if profile.pp > 1:
        args += ["--pipeline-parallel-size", str(profile.pp)]
    if profile.served_model_name:
        args += ["--served-model-name", profile.served_model_name]
    return args


def rank_options(spec: ShardSpec) -> list[str]:
    """Which rank of how many nodes it is."""
    return ["--nnodes", str(spec.nnodes), "--node-rank", str(spec.rank)]
