"""Checks that every driver makes before a launch; pure, the first failure is the answer."""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile
from llmgw.errors import Invalid


def check_launch(profile: LaunchProfile, gpus: Sequence[Gpu]) -> None:
    """Raise ``Invalid``, naming the profile, when its shape is wrong or the cards do not suit it.

    No cards at all means a shard of the CPU pool.
    """
    subject = f"profile {profile.name!r}"
    if not profile.model_path:
        raise Invalid(f"{subject}: it has no model to load; give the model a source")
    if profile.tp <= 0:
        raise Invalid(f"{subject}: tp is {profile.tp}, it must be at least 1")
    if profile.nodes > 1 and profile.gpus_per_node <= 0:
        raise Invalid(f"{subject}: with {profile.nodes} nodes it must say gpus_per_node")
    per_node = profile.gpus_per_node or profile.tp
    have, want = per_node * max(profile.nodes, 1), profile.tp * max(profile.pp, 1)
    if have != want:
        raise Invalid(
            f"{subject}: tp x pp asks for {want} cards, nodes x gpus_per_node give {have}"
        )
    if gpus and len(gpus) < per_node:
        raise Invalid(f"{subject}: it needs {per_node} cards and was given {len(gpus)}")
    names = sorted({gpu.name for gpu in gpus})
    if len(names) > 1:
        raise Invalid(f"{subject}: one shard may not mix GPU types: {', '.join(names)}")


def check_no_flags(profile: LaunchProfile, *, reserved: Sequence[str]) -> None:
    """Raise ``Invalid`` when the profile's own arguments hold a flag that the agent sets itself."""
    taken = [flag for flag in reserved if has_flag(profile.args, flag)]
    if taken:
        raise Invalid(
            f"profile {profile.name!r}: llmgw sets {', '.join(taken)} itself; remove it from args"
        )


def has_flag(args: Sequence[str], *flags: str) -> bool:
    """Whether one of the flags is among the arguments, alone or as ``flag=value``."""
    return any(arg == flag or arg.startswith(f"{flag}=") for arg in args for flag in flags)


def flag_value(args: Sequence[str], *flags: str) -> str | None:
    """The value of the last such flag, in either form; nothing if it is absent or dangling."""
    found: str | None = None
    for position, arg in enumerate(args):
        for flag in flags:
            if arg == flag:
                found = args[position + 1] if position + 1 < len(args) else None
            elif arg.startswith(f"{flag}="):
                found = arg.removeprefix(f"{flag}=")
    return found
