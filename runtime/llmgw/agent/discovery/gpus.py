"""Which cards may not be used, and why; pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from llmgw.domain.nodes import FOREIGN_MEMORY_MIB, Gpu


def condemned(gpu: Gpu) -> Gpu:
    """The card with the problems that stay until somebody repairs it."""
    if not gpu.ecc_errors:
        return gpu
    noun = "error" if gpu.ecc_errors == 1 else "errors"
    return replace(gpu, problems=(f"{gpu.ecc_errors} uncorrected ECC {noun}",))


def foreign_memory(gpu: Gpu, *, held_indices: Collection[int]) -> str | None:
    """What to say of memory that another process holds on a card; nothing on one that we hold.

    It comes and goes, so it is no part of the card's own problems: the control plane, which knows
    every claim, judges it at each heartbeat, and the inventory shows it for the moment.
    """
    used_mib = gpu.memory_used_mib or 0
    if gpu.index in held_indices or used_mib <= FOREIGN_MEMORY_MIB:
        return None
    return f"{used_mib} MiB held by another process"


def news(earlier: Collection[Gpu], later: Collection[Gpu]) -> tuple[str, ...]:
    """Problems of cards that an earlier reading did not have, each naming its card."""
    known = {gpu.index: gpu.problems for gpu in earlier}
    return tuple(
        f"GPU {gpu.index}: {problem}"
        for gpu in later
        for problem in gpu.problems
        if problem not in known.get(gpu.index, ())
    )
