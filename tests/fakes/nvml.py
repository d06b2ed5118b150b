"""A double of the ``pynvml`` module: cards as values, every call answering like the library."""

# ruff: noqa: N802 - the library's own names

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace


class NVMLError(Exception):
    """The library's one exception."""


@dataclass
class Card:
    """One card as the library knows it; a field of ``None`` is answered with an error."""

    name: str | bytes = "NVIDIA H100 80GB HBM3"
    uuid: str = "GPU-0"
    bus_id: str | bytes | None = "00000000:1B:00.0"
    memory: tuple[int, int] | None = (81559 * 2**20, 4 * 2**20)
    capability: tuple[int, int] | None = (9, 0)
    utilization: int | None = 0
    temperature: int | None = 31
    ecc: int | None = 0
    links: Mapping[int, str] = field(default_factory=dict)


class FakeNvml:
    """Stands in for the module ``pynvml``."""

    NVMLError = NVMLError
    NVML_NVLINK_MAX_LINKS = 18
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0

    def __init__(self, *cards, driver="550.90.07", cuda=12040, is_loaded=True):
        self.cards, self.driver, self.cuda, self.is_loaded = cards, driver, cuda, is_loaded
        self.n_open = 0
        self.broken_handles = set()

    def nvmlInit(self):
        if not self.is_loaded:
            raise NVMLError("Driver Not Loaded")
        self.n_open += 1

    def nvmlShutdown(self):
        self.n_open -= 1

    def nvmlSystemGetDriverVersion(self):
        return _given(self.driver)

    def nvmlSystemGetCudaDriverVersion(self):
        return _given(self.cuda)

    def nvmlDeviceGetCount(self):
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):
        if index in self.broken_handles:
            raise NVMLError("GPU is lost")
        return self.cards[index]

    def nvmlDeviceGetName(self, card):
        return _given(card.name)

    def nvmlDeviceGetUUID(self, card):
        return _given(card.uuid)

    def nvmlDeviceGetPciInfo(self, card):
        return SimpleNamespace(busId=_given(card.bus_id))

    def nvmlDeviceGetMemoryInfo(self, card):
        total, used = _given(card.memory)
        return SimpleNamespace(total=total, used=used)

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

    def nvmlDeviceGetNvLinkRemotePciInfo(self, card, link):
        return SimpleNamespace(busId=_given(card.links.get(link)))


def _given(value):
    if value is None:
        raise NVMLError("Not Supported")
    return value
