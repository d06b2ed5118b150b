"""Which cards may not be used, and why; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from llmgw.agent.discovery import bus_ids
from llmgw.domain.nodes import FOREIGN_MEMORY_MIB, Gpu, GpuGauges

NOT_LISTED = "the driver lists it no longer"
CUT_SOMEHOW = "MIG is on: it is cut into parts; engines use whole cards only"
"""Said of a card by who cannot tell into which parts."""


def condemned(gpu: Gpu, *more: str) -> Gpu:
    """The card with the problems that stay until somebody repairs it; ``more`` are known already.

    A card whose errors could not be read has none that anybody knows of.
    """
    problems = [*more]
    if gpu.ecc_errors:
        noun = "error" if gpu.ecc_errors == 1 else "errors"
        problems.insert(0, f"{gpu.ecc_errors} uncorrected ECC {noun}")
    return replace(gpu, problems=(*gpu.problems, *problems))


def cut(instances: Collection[str]) -> str:
    """What to say of a card in MIG mode: engines are given whole cards only."""
    counts = Counter(instances).items()
    parts = ", ".join(f"{count} x {part}" for part, count in counts) or "nothing yet"
    return f"MIG is on: cut into {parts}; engines use whole cards only"


def faulted(
    cards: Iterable[Gpu], faults: Mapping[str, str], *, sound: Collection[int] = ()
) -> tuple[Gpu, ...]:
    """The cards with what the kernel's log says of them; those that are ``sound`` know better."""
    return tuple(
        card
        if card.index in sound or (fault := faults.get(bus_ids.normal(card.pci_bus_id))) is None
        else replace(card, problems=(*card.problems, fault))
        for card in cards
    )


def foreign_memory(gpu: Gpu, *, held_indices: Collection[int]) -> str | None:
    """What to say of memory that another process holds on a card; nothing on one that we hold.

    It comes and goes, so it is no part of the card's own problems: the control plane, which knows
    every claim, judges it at each heartbeat, and the inventory shows it for the moment.
    """
    used_mib = gpu.memory_used_mib or 0
    if gpu.index in held_indices or used_mib <= FOREIGN_MEMORY_MIB:
        return None
    return f"{used_mib} MiB held by another process"


def remembered(earlier: Collection[Gpu], later: Collection[Gpu]) -> tuple[Gpu, ...]:
    """A later reading, in which no card is lost sight of.

    One that only its number is left of keeps what was known of it, and one that is not listed any
    more stays, out of use: an engine may still hold it, and somebody has to repair it.
    """
    known = {gpu.index: gpu for gpu in earlier}
    seen = [_recognised(gpu, known.get(gpu.index)) for gpu in later]
    gone = known.keys() - {gpu.index for gpu in later}
    lost = [_without_gauges(known[index], NOT_LISTED) for index in gone]
    return tuple(sorted((*seen, *lost), key=lambda gpu: gpu.index))


def unreadable(cards: Iterable[Gpu], *, why: str) -> tuple[Gpu, ...]:
    """Cards of a driver that has not answered for a while."""
    return tuple(_without_gauges(card, f"it cannot be read: {why}") for card in cards)


def gauges(gpu: Gpu) -> GpuGauges:
    """What moves on a card, beside its memory."""
    return GpuGauges(
        utilization_percent=gpu.utilization_percent,
        temperature_c=gpu.temperature_c,
        power_watts=gpu.power_watts,
    )


def news(earlier: Collection[Gpu], later: Collection[Gpu]) -> tuple[str, ...]:
    """Problems of cards that an earlier reading did not have, each naming its card."""
    known = {gpu.index: gpu.problems for gpu in earlier}
    return tuple(
        f"GPU {gpu.index}: {problem}"
        for gpu in later
        for problem in gpu.problems
        if problem not in known.get(gpu.index, ())
    )


def _recognised(gpu: Gpu, before: Gpu | None) -> Gpu:
    if gpu.uuid or before is None:
        return gpu
    return replace(_without_gauges(before), problems=gpu.problems)


def _without_gauges(gpu: Gpu, *problem: str) -> Gpu:
    """Problems that were there stay; one is not said twice."""
    return replace(
        gpu,
        memory_used_mib=None,
        utilization_percent=None,
        temperature_c=None,
        power_watts=None,
        problems=tuple(dict.fromkeys((*gpu.problems, *problem))),
    )
