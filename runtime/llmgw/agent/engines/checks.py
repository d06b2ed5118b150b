"""Checks that every driver makes before a launch; pure, all that is wrong is found at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from llmgw.domain import engine_options
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from llmgw.errors import Invalid

LEAST_FP8 = 8.9
"""The compute capability from which on a card computes in FP8."""


def refuse(profile: LaunchProfile, problems: Sequence[str]) -> None:
    """Raise ``Invalid``, naming the profile, with every problem; nothing happens without one."""
    if problems:
        raise Invalid(f"profile {profile.name!r}: " + "; ".join(problems))


def options(engine: str, profile: LaunchProfile) -> list[str]:
    """What is wrong with the profile's own arguments for this engine."""
    return engine_options.problems(engine, args=profile.args, capabilities=profile.capabilities)


def shape(profile: LaunchProfile, gpus: Sequence[Gpu]) -> list[str]:
    """What is wrong with the profile's shape, or with these cards for it.

    No cards at all means a shard of the CPU pool.
    """
    problems = [] if profile.model_path else ["it has no model to load; give the model a source"]
    problems += _split(profile)
    per_node = profile.gpus_per_node or profile.tp
    if gpus and len(gpus) < per_node:
        problems.append(f"it needs {per_node} cards and was given {len(gpus)}")
    names = sorted({gpu.name for gpu in gpus})
    if len(names) > 1:
        problems.append(f"one shard may not mix GPU types: {', '.join(names)}")
    return problems


def fp8(profile: LaunchProfile, gpus: Sequence[Gpu]) -> list[str]:
    """Cards that cannot compute in FP8 though the profile wants it; an unknown one is let through.

    Only for engines that take ``--quantization``.
    """
    if engine_options.flag_value(profile.args, "--quantization", "-q") != "fp8":
        return []
    too_old = [gpu for gpu in gpus if _capability(gpu) < LEAST_FP8]
    return [
        f"fp8 needs compute capability {LEAST_FP8:g}, and card {gpu.index} ({gpu.name}) has "
        f"{gpu.compute_capability}"
        for gpu in too_old[:1]
    ]


def check_meeting(spec: ShardSpec) -> None:
    """Raise ``Invalid`` when an order for one of several ranks does not say where they meet."""
    if spec.nnodes <= 1:
        return
    problems = []
    if not 0 <= spec.rank < spec.nnodes:
        problems.append(f"rank {spec.rank} of {spec.nnodes} nodes")
    if not spec.leader_addr or not spec.leader_port:
        problems.append("no address or port at which the ranks meet")
    if problems:
        raise Invalid(f"shard {spec.shard_id}: the order makes no sense: {'; '.join(problems)}")


def _split(profile: LaunchProfile) -> Iterator[str]:
    """How the model is cut over cards; a rule that rests on a broken one is left out."""
    if profile.tp <= 0:
        yield f"tp is {profile.tp}, it must be at least 1"
    if profile.nodes > 1 and profile.gpus_per_node <= 0:
        yield f"with {profile.nodes} nodes it must say gpus_per_node"
    elif profile.tp > 0:
        per_node = profile.gpus_per_node or profile.tp
        have, want = per_node * max(profile.nodes, 1), profile.tp * max(profile.pp, 1)
        if have != want:
            yield f"tp x pp asks for {want} cards, nodes x gpus_per_node give {have}"


def _capability(gpu: Gpu) -> float:
    known = re.fullmatch(r"(\d+)\.(\d+)", gpu.compute_capability or "")
    return float(gpu.compute_capability) if known else float("inf")
