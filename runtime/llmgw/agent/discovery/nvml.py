"""Cards as NVIDIA's management library reports them, with the NVLink topology.

The library comes with the driver; ``pynvml`` only calls it. Where there is no driver it cannot be
initialised, and the scan asks ``nvidia-smi`` instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pynvml

from llmgw.agent.discovery import gpus
from llmgw.domain.nodes import Gpu
from llmgw.errors import DiscoveryFailed

_T = TypeVar("_T")
_MIB = 2**20


def read(library: Any = pynvml) -> tuple[Gpu, ...]:
    """All cards; ``DiscoveryFailed`` when the library, or one card as a whole, cannot be asked."""
    with _open(library):
        try:
            n_cards = library.nvmlDeviceGetCount()
            handles = [library.nvmlDeviceGetHandleByIndex(i) for i in range(n_cards)]
        except library.NVMLError as error:
            raise DiscoveryFailed(f"NVML cannot list the cards: {error}") from error
        asking = _Asking(library)
        cards = [asking.card(index, handle) for index, handle in enumerate(handles)]
        index_by_bus = {normal_bus_id(c.pci_bus_id): c.index for c in cards if c.pci_bus_id}
        return tuple(
            replace(card, nvlink_peers=asking.peers(card.index, handle, index_by_bus))
            for card, handle in zip(cards, handles, strict=True)
        )


def normal_bus_id(bus_id: str) -> str:
    """A bus id that compares equal however long its domain is written: ``00000000:1B:00.0``."""
    domain, colon, rest = bus_id.strip().lower().partition(":")
    if not colon:
        return domain
    short = domain.lstrip("0")
    return f"{short}:{rest}" if short else rest


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


class _Asking:
    """Asks one initialised library; what it does not answer is absent."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._driver = self._text(library.nvmlSystemGetDriverVersion)
        self._cuda = self._cuda_version()

    def card(self, index: int, handle: Any) -> Gpu:
        """One card without its links."""
        lib = self._library
        memory = self._maybe(lib.nvmlDeviceGetMemoryInfo, handle)
        load = self._maybe(lib.nvmlDeviceGetUtilizationRates, handle)
        bus = self._maybe(lib.nvmlDeviceGetPciInfo, handle)
        capability = self._maybe(lib.nvmlDeviceGetCudaComputeCapability, handle)
        return gpus.condemned(
            Gpu(
                index=index,
                uuid=self._text(lib.nvmlDeviceGetUUID, handle),
                name=self._text(lib.nvmlDeviceGetName, handle),
                memory_total_mib=None if memory is None else int(memory.total) // _MIB,
                memory_used_mib=None if memory is None else int(memory.used) // _MIB,
                utilization_percent=None if load is None else int(load.gpu),
                compute_capability="" if capability is None else f"{capability[0]}.{capability[1]}",
                pci_bus_id="" if bus is None else _decoded(bus.busId),
                driver_version=self._driver,
                cuda_version=self._cuda,
                ecc_errors=self._ecc(handle),
                temperature_c=self._maybe(
                    lib.nvmlDeviceGetTemperature, handle, lib.NVML_TEMPERATURE_GPU
                ),
            )
        )

    def peers(self, index: int, handle: Any, index_by_bus: dict[str, int]) -> tuple[int, ...]:
        """Cards that this one has a link to, in the order of its links.

        A link that is not populated answers with an error, and one to a switch with a bus id that
        is no card's; both are normal.
        """
        found: dict[int, None] = {}
        for link in range(self._library.NVML_NVLINK_MAX_LINKS):
            remote = self._maybe(self._library.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            if remote is None:
                continue
            peer = index_by_bus.get(normal_bus_id(_decoded(remote.busId)))
            if peer is not None and peer != index:
                found[peer] = None
        return tuple(found)

    def _ecc(self, handle: Any) -> int | None:
        """Uncorrected errors since the driver was loaded; older ones must not condemn a card."""
        lib = self._library
        return self._maybe(
            lib.nvmlDeviceGetTotalEccErrors,
            handle,
            lib.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            lib.NVML_VOLATILE_ECC,
        )

    def _cuda_version(self) -> str:
        version = self._maybe(self._library.nvmlSystemGetCudaDriverVersion)
        return "" if version is None else f"{version // 1000}.{version % 1000 // 10}"

    def _text(self, call: Callable[..., str | bytes], *given: Any) -> str:
        answer = self._maybe(call, *given)
        return "" if answer is None else _decoded(answer)

    def _maybe(self, call: Callable[..., _T], *given: Any) -> _T | None:
        try:
            return call(*given)
        except self._library.NVMLError:
            return None


def _decoded(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text
