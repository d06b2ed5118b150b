"""A double of the ``pynvml`` module: cards as values, every call answering like the library."""

# ruff: noqa: N802, N815 - the library's own names

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

import pynvml

MIB = 2**20


class NVMLError(Exception):
    """The library's one exception."""


@dataclass
class Card:
    """One card as the library knows it; a field of ``None`` is answered with an error."""

    name: str | bytes = "NVIDIA H100 80GB HBM3"
    uuid: str = "GPU-0"
    bus_id: str | bytes | None = "00000000:1B:00.0"
    memory: tuple[int, int] | None = (81559 * MIB, 4 * MIB)
    """Total, and held by processes."""
    reserved: int = 0
    """Kept by the driver for itself; the first form of the answer counts it as used."""
    knows_second_form: bool = True
    capability: tuple[int, int] | None = (9, 0)
    utilization: int | None = 0
    temperature: int | None = 31
    ecc: int | None = 0
    power_mw: int | None = None
    power_limit_mw: int | None = None
    persistence: int | None = 1
    links: Mapping[int, str] = field(default_factory=dict)
    switches: frozenset[str] = frozenset()
    """Those other ends of links that are switches."""
    clique: int | None = None
    fabric_state: int = 3
    mig: int | None = None
    instances: tuple[str, ...] = ()
    remapped: tuple[int, int, int, int] | None = None
    recovery: int | None = None
    lost: str = ""
    """What the library says instead of handing out the card."""


class FakeNvml:
    """Stands in for the module ``pynvml``."""

    NVMLError = NVMLError
    NVML_SUCCESS = 0
    NVML_NVLINK_MAX_LINKS = 18
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_GPU_FABRIC_STATE_NOT_STARTED = 1
    NVML_GPU_FABRIC_STATE_IN_PROGRESS = 2
    NVML_GPU_FABRIC_STATE_COMPLETED = 3
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230
    nvmlMemory_v2 = 33554472
    c_nvmlGpuFabricInfo_t = pynvml.c_nvmlGpuFabricInfo_t

    def __init__(self, *cards, driver="550.90.07", cuda=12040, is_loaded=True, error=""):
        self.cards, self.driver, self.cuda, self.is_loaded = cards, driver, cuda, is_loaded
        self.error = error or "Driver Not Loaded"
        self.n_open = 0

    def nvmlInit(self):
        if not self.is_loaded:
            raise NVMLError(self.error)
        self.n_open += 1

    def nvmlShutdown(self):
        self.n_open -= 1

    def nvmlSystemGetDriverVersion(self):
        return _given(self.driver)

    def nvmlSystemGetCudaDriverVersion(self):
        return _given(self.cuda)

    def nvmlDeviceGetCount(self):
        return _given(None if self.cards is None else len(self.cards))

    def nvmlDeviceGetHandleByIndex(self, index):
        if self.cards[index].lost:
            raise NVMLError(self.cards[index].lost)
        return self.cards[index]

    def nvmlDeviceGetName(self, card):
        return _given(card.name)

    def nvmlDeviceGetUUID(self, card):
        return _given(card.uuid)

    def nvmlDeviceGetPciInfo(self, card):
        return SimpleNamespace(busId=_given(card.bus_id))

    def nvmlDeviceGetMemoryInfo(self, card, version=None):
        total, used = _given(card.memory)
        if version is None:
            return SimpleNamespace(total=total, used=used + card.reserved)
        if not card.knows_second_form:
            raise NVMLError("Function Not Found")
        assert version == self.nvmlMemory_v2
        return SimpleNamespace(total=total, used=used, reserved=card.reserved)

    def nvmlDeviceGetUtilizationRates(self, card):
        return SimpleNamespace(gpu=_given(card.utilization))

    def nvmlDeviceGetCudaComputeCapability(self, card):
        return _given(card.capability)

    def nvmlDeviceGetTemperature(self, card, sensor):
        assert sensor == self.NVML_TEMPERATURE_GPU
        return _given(card.temperature)

    def nvmlDeviceGetTotalEccErrors(self, card, kind, counter):
        assert (kind, counter) == (1, 0)
        return _given(card.ecc)

    def nvmlDeviceGetPowerUsage(self, card):
        return _given(card.power_mw)

    def nvmlDeviceGetEnforcedPowerLimit(self, card):
        return _given(card.power_limit_mw)

    def nvmlDeviceGetPersistenceMode(self, card):
        return _given(card.persistence)

    def nvmlDeviceGetNvLinkRemotePciInfo(self, card, link):
        return SimpleNamespace(busId=_given(card.links.get(link)))

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, card, link):
        is_switch = _given(card.links.get(link)) in card.switches
        return self.NVML_NVLINK_DEVICE_TYPE_SWITCH if is_switch else 0

    def nvmlDeviceGetGpuFabricInfo(self, card, reference):
        reference._obj.cliqueId = _given(card.clique)
        reference._obj.state = card.fabric_state
        return self.NVML_SUCCESS

    def nvmlDeviceGetMigMode(self, card):
        return [_given(card.mig), card.mig]

    def nvmlDeviceGetMaxMigDeviceCount(self, card):
        return 7 if card.mig is not None else 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card, place):
        if place >= len(card.instances):
            raise NVMLError("Not Found")
        return SimpleNamespace(name=f"{card.name} {card.instances[place]}")

    def nvmlDeviceGetRemappedRows(self, card):
        return _given(card.remapped)

    def nvmlDeviceGetFieldValues(self, card, fields):
        assert fields == [self.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
        is_known = card.recovery is not None
        value = SimpleNamespace(uiVal=card.recovery or 0)
        return [SimpleNamespace(nvmlReturn=0 if is_known else 3, value=value)]


def _given(value):
    if value is None:
        raise NVMLError("Not Supported")
    return value
