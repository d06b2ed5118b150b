"""Cards as NVIDIA's management library reports them, with the NVLink topology.

The library comes with the driver; ``pynvml`` only calls it. Where there is no driver it cannot be
initialised, and the scan asks ``nvidia-smi`` instead. It is opened for one look at a time: held
open, it would keep cards from being reset and the driver from being replaced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pynvml

from llmgw.agent.discovery import nvlink
from llmgw.agent.discovery.nvml_card import CardReader, Look
from llmgw.domain.nodes import Gpu
from llmgw.errors import DiscoveryFailed

_NOT_PERSISTENT = (
    "persistence mode of the cards is off, so each look at them and each start of an engine takes "
    "seconds longer; enable nvidia-persistenced"
)


@dataclass(frozen=True, slots=True)
class Listing:
    """All cards; ``sound`` are those whose driver says that nothing has to be done with them."""

    gpus: tuple[Gpu, ...] = ()
    sound: frozenset[int] = frozenset()
    warnings: tuple[str, ...] = ()


def read(library: Any = pynvml) -> Listing:
    """All cards; ``DiscoveryFailed`` when the library cannot be asked at all.

    A card that cannot be asked keeps its number and has that as its problem: it must not hide the
    others.
    """
    with _open(library):
        try:
            n_cards = library.nvmlDeviceGetCount()
        except library.NVMLError as error:
            raise DiscoveryFailed(f"NVML cannot list the cards: {error}") from error
        reader = CardReader(library)
        looks = [reader.look(index) for index in range(n_cards)]
        peers = nvlink.peers({look.gpu.index: look.links for look in looks if look.links})
        return Listing(
            gpus=tuple(replace(k.gpu, nvlink_peers=peers.get(k.gpu.index)) for k in looks),
            sound=frozenset(look.gpu.index for look in looks if look.is_sound),
            warnings=tuple(_warnings(looks)),
        )


def _warnings(looks: Sequence[Look]) -> Iterator[str]:
    if any(look.is_persistent is False for look in looks):
        yield _NOT_PERSISTENT
    waiting = [str(look.gpu.index) for look in looks if look.waits_for_fabric]
    if waiting:
        yield (
            f"nobody has set up the NVLink switches for GPU {', '.join(waiting)}: engines cannot "
            "start there; look at nvidia-fabricmanager"
        )


@contextlib.contextmanager
def _open(library: Any) -> Iterator[None]:
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise DiscoveryFailed(f"NVML is not available: {error}") from error
    try:
        yield
    finally:
        with contextlib.suppress(library.NVMLError):
            library.nvmlShutdown()
