"""Asks NVIDIA's management library about one card; what it does not answer is absent.

``nvml`` opens the library and puts the cards together.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from llmgw.agent.discovery import gpus
from llmgw.agent.discovery.nvlink import Links
from llmgw.domain.nodes import Gpu

_T = TypeVar("_T")
_MIB = 2**20
_MILLIWATTS = 1000
_RECOVERY = {
    1: "it has to be reset",
    2: "its machine has to be booted",
    3: "what uses its links has to end",
    4: "what uses it has to end, and it has to be reset",
    5: "its IMEX domain has to be recovered",
    6: "its bus has to be reset",
    7: "its machine has to be booted",
}
"""``nvmlDeviceGpuRecoveryAction_t``; 0 means that nothing has to be done."""


@dataclass(frozen=True, slots=True)
class Look:
    """One card, its links where they could be asked for, and what its driver thinks of it.

    ``is_persistent``: the driver keeps it ready while nobody uses it. ``waits_for_fabric``: it is
    behind switches that nobody has set up.
    """

    gpu: Gpu
    links: Links | None = None
    is_sound: bool = False
    is_persistent: bool | None = None
    waits_for_fabric: bool = False


class CardReader:
    """Reads the cards of one initialised library."""

    def __init__(self, library: Any) -> None:
        """``library`` has the functions of the module ``pynvml``."""
        self._library = library
        self._driver = self._text(library.nvmlSystemGetDriverVersion)
        self._cuda = self._cuda_version()

    def look(self, index: int) -> Look:
        """One card; one that is lost has nothing but its number and the reason."""
        lib = self._library
        try:
            handle = lib.nvmlDeviceGetHandleByIndex(index)
        except lib.NVMLError as error:
            problem = f"it cannot be asked: {error}"
            return Look(Gpu(index=index, uuid="", name="", problems=(problem,)))
        recovery = self._recovery(handle)
        gpu = gpus.condemned(self._gpu(index, handle), *self._problems(handle, recovery=recovery))
        persistence = self._maybe(lib.nvmlDeviceGetPersistenceMode, handle)
        fabric = self._fabric(handle)
        links = self._links(handle, gpu.pci_bus_id, fabric)
        return Look(
            gpu,
            links=links,
            is_sound=recovery == 0,
            is_persistent=None if persistence is None else bool(persistence),
            waits_for_fabric=bool(links and links.has_switch) and self._waits(fabric),
        )

    def _gpu(self, index: int, handle: Any) -> Gpu:
        lib = self._library
        memory = self._memory(handle)
        load = self._maybe(lib.nvmlDeviceGetUtilizationRates, handle)
        bus = self._maybe(lib.nvmlDeviceGetPciInfo, handle)
        capability = self._maybe(lib.nvmlDeviceGetCudaComputeCapability, handle)
        return Gpu(
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
            power_watts=self._watts(lib.nvmlDeviceGetPowerUsage, handle),
            power_limit_watts=self._watts(lib.nvmlDeviceGetEnforcedPowerLimit, handle),
            mig_instances=self._instances(handle) if self._is_cut(handle) else (),
        )

    def _problems(self, handle: Any, *, recovery: int | None) -> Iterator[str]:
        """What a card says of itself, beside its ECC errors."""
        if self._is_cut(handle):
            yield gpus.cut(self._instances(handle))
        rows = self._maybe(self._library.nvmlDeviceGetRemappedRows, handle)
        if rows is not None:
            _, _, is_pending, has_failed = rows
            if has_failed:
                yield "a broken row of memory could not be replaced"
            elif is_pending:
                yield "a broken row of memory is replaced once the card is reset"
        if recovery:
            yield f"its driver says that {_RECOVERY.get(recovery, 'it has to be recovered')}"

    def _links(self, handle: Any, bus_id: str, fabric: Any) -> Links | None:
        """The other ends of its links; nothing where that cannot be asked for at all.

        A link that is not populated answers with an error, which is normal.
        """
        if not bus_id:
            return None
        lib = self._library
        remotes: list[str] = []
        has_switch = False
        for link in range(lib.NVML_NVLINK_MAX_LINKS):
            remote = self._maybe(lib.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            if remote is None:
                continue
            remotes.append(_decoded(remote.busId))
            kind = self._maybe(lib.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
            has_switch = has_switch or kind == lib.NVML_NVLINK_DEVICE_TYPE_SWITCH
        return Links(bus_id, tuple(remotes), has_switch, clique=self._clique(fabric))

    def _fabric(self, handle: Any) -> Any:
        """What a fabric manager has done with the card; nothing before the Hopper generation."""
        lib = self._library
        fabric = lib.c_nvmlGpuFabricInfo_t()
        asked = self._maybe(lib.nvmlDeviceGetGpuFabricInfo, handle, ctypes.byref(fabric))
        return None if asked is None else fabric

    def _waits(self, fabric: Any) -> bool:
        lib = self._library
        waiting = (lib.NVML_GPU_FABRIC_STATE_NOT_STARTED, lib.NVML_GPU_FABRIC_STATE_IN_PROGRESS)
        return fabric is not None and fabric.state in waiting

    def _clique(self, fabric: Any) -> str:
        """The group that a fabric manager put the card into; empty where there is none."""
        if fabric is None or fabric.state != self._library.NVML_GPU_FABRIC_STATE_COMPLETED:
            return ""
        return f"{bytes(fabric.clusterUuid).hex()}/{fabric.cliqueId}"

    def _is_cut(self, handle: Any) -> bool:
        mode = self._maybe(self._library.nvmlDeviceGetMigMode, handle)
        return mode is not None and mode[0] == self._library.NVML_DEVICE_MIG_ENABLE

    def _instances(self, handle: Any) -> tuple[str, ...]:
        """The parts of a card in the order of their numbers, such as ``MIG 1g.5gb``."""
        lib = self._library
        n_places = self._maybe(lib.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
        parts = (
            self._maybe(lib.nvmlDeviceGetMigDeviceHandleByIndex, handle, place)
            for place in range(n_places)
        )
        whole = self._text(lib.nvmlDeviceGetName, handle)
        names = (self._text(lib.nvmlDeviceGetName, part) for part in parts if part is not None)
        return tuple(name.removeprefix(whole).strip() for name in names)

    def _recovery(self, handle: Any) -> int | None:
        """What the driver wants done with the card; older ones do not say."""
        lib = self._library
        field = lib.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
        answers = self._maybe(lib.nvmlDeviceGetFieldValues, handle, [field])
        if answers is None or answers[0].nvmlReturn != lib.NVML_SUCCESS:
            return None
        return int(answers[0].value.uiVal)

    def _memory(self, handle: Any) -> Any:
        """Total and used bytes, absent where they are not told.

        Asked in the second form: in the first one "used" has the memory in it that the driver keeps
        for itself, more than half a GiB on a large card, as if somebody held it.
        """
        lib = self._library
        second = self._maybe(lib.nvmlDeviceGetMemoryInfo, handle, lib.nvmlMemory_v2)
        return second or self._maybe(lib.nvmlDeviceGetMemoryInfo, handle)

    def _ecc(self, handle: Any) -> int | None:
        """Uncorrected errors since the driver was loaded; older ones must not condemn a card."""
        lib = self._library
        return self._maybe(
            lib.nvmlDeviceGetTotalEccErrors,
            handle,
            lib.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            lib.NVML_VOLATILE_ECC,
        )

    def _watts(self, call: Callable[[Any], int], handle: Any) -> int | None:
        milliwatts = self._maybe(call, handle)
        return None if milliwatts is None else round(milliwatts / _MILLIWATTS)

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
