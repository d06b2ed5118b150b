"""One look at this machine: every part for itself, so that one failure hides nothing else.

Called by ``facts`` for the control plane and by ``inventory_cmd`` for people; it may block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from llmgw.agent.discovery import (
    fabrics,
    gpus,
    host,
    infiniband,
    memory,
    numa,
    nvidia_smi,
    nvml,
    storage,
    weights_scan,
)
from llmgw.agent.discovery.engine_programs import EnginePrograms
from llmgw.agent.discovery.fabrics import FabricCheck
from llmgw.agent.discovery.fault_log import FaultLog, Faults
from llmgw.agent.discovery.infiniband import Hca
from llmgw.agent.discovery.nvml import Listing
from llmgw.agent.install.standing import Standings
from llmgw.config.settings import AgentSettings, DiscoverySettings
from llmgw.domain.nodes import EngineInstall, Fabric, Gpu, Host, LocalWeights, Storage
from llmgw.errors import DiscoveryFailed

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Files:
    """What lies in the model folders."""

    storage: tuple[Storage, ...] = ()
    weights: tuple[LocalWeights, ...] = ()


@dataclass(frozen=True, slots=True)
class Cards:
    """The cards, who listed them (``nvml``, ``nvidia-smi`` or ``none``), and what went wrong."""

    gpus: tuple[Gpu, ...] = ()
    source: str = "none"
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is around the cards, and changes when somebody works on the machine."""

    hcas: tuple[Hca, ...] = ()
    fabrics: tuple[FabricCheck, ...] = ()
    host: Host = field(default_factory=Host)
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def fabric_problems(self) -> tuple[str, ...]:
        """What is wrong with declared fabrics; one without a usable adapter is not offered."""
        return tuple(problem for check in self.fabrics for problem in check.said)

    @property
    def offered(self) -> tuple[Fabric, ...]:
        """The fabrics that the control plane is told of."""
        return tuple(check.fabric for check in self.fabrics if check.is_usable)


@dataclass(frozen=True, slots=True)
class Hardware:
    """Everything that is not a file of ours."""

    cards: Cards = Cards()
    around: Surroundings = field(default_factory=Surroundings)
    memory_total_mb: int | None = None

    @property
    def failures(self) -> tuple[str, ...]:
        """One sentence for each part that could not be read."""
        return (*self.cards.failures, *self.around.failures)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator should know, though nothing is kept from the machine for that."""
        return (*self.around.warnings, *self.cards.warnings)


@dataclass(frozen=True, slots=True)
class EnginesHere:
    """Version by engine of what can be started here, and how what was installed stands."""

    versions: Mapping[str, str] = field(default_factory=dict)
    installs: tuple[EngineInstall, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the files of a machine are, and what its kernel calls its kind of processor."""

    root: Path = Path("/")
    architecture: str | None = None
    """``None``: that of this process."""


class Scanner:
    """Reads this machine as the settings say."""

    def __init__(
        self,
        *,
        settings: AgentSettings,
        programs: Callable[[], Mapping[str, Sequence[str]]],
        search_path: str | None,
        read_nvml: Callable[[], Listing] = nvml.read,
        standings: Callable[[], Standings] = Standings,
        machine: Machine = Machine(),
    ) -> None:
        """``programs`` says the words that start each engine; ``search_path`` is ``PATH``.

        ``standings`` tells of engines that were installed here; it may block.
        """
        self._settings = settings
        self._programs = programs
        self._search_path = search_path
        self._engine_programs = EnginePrograms(search_path=search_path)
        self._read_nvml = read_nvml
        self._standings = standings
        self._root = machine.root
        self._architecture = machine.architecture
        self._fault_log = FaultLog(_under(machine.root, settings.discovery.kernel_log))

    def files(self) -> Files:
        """Space and weights in the model folders; ``weights_dir`` is always one of them."""
        folders = model_folders(self._settings)
        shared = self._declared_shared()
        return Files(
            storage=storage.read(folders, declared=shared),
            weights=weights_scan.scan(
                folders, is_shared=lambda folder: folder in shared or storage.is_shared(folder)
            ),
        )

    def space(self) -> tuple[Storage, ...]:
        """Space alone."""
        return storage.read(model_folders(self._settings), declared=self._declared_shared())

    def hardware(self) -> Hardware:
        """Memory and processor first, which never fail, then adapters, then cards."""
        memory_total_mb = self.memory_total_mb()
        around = self.around()
        return Hardware(cards=self.cards(), around=around, memory_total_mb=memory_total_mb)

    def around(self) -> Surroundings:
        """Processor, adapters, and what of the declared fabrics works."""
        declared = self._settings.fabrics
        processor = host.read(root=self._root, machine=self._architecture)
        root = _under(self._root, self._settings.discovery.ib_root)
        hcas, failures = _attempt(lambda: infiniband.read(root))
        about_fabrics = fabrics.warnings(
            declared, hcas, mgmt_interface=self._settings.mgmt_interface
        )
        return Surroundings(
            hcas=hcas,
            fabrics=fabrics.check(declared, hcas),
            host=processor,
            failures=failures,
            warnings=(*host.warnings(processor), *about_fabrics),
        )

    def cards(self) -> Cards:
        """The cards with where they sit and what the kernel's log says of them."""
        listing, source, failures = self._listed()
        placed = (
            replace(card, numa_node=numa.of_device(self._root, card.pci_bus_id))
            for card in listing.gpus
        )
        faults = self._fault_log.faults() if listing.gpus else Faults()
        return Cards(
            gpus=gpus.faulted(placed, faults.by_bus_id, sound=listing.sound),
            source=source,
            failures=failures,
            warnings=(*listing.warnings, *faults.warnings),
        )

    def memory_total_mb(self) -> int | None:
        """Memory of the machine; a VM may be given more while it runs."""
        return memory.total_mb(self._root / "proc/meminfo")

    def engines(self) -> EnginesHere:
        """The engines that can be started here, and how the installed ones stand.

        One that was installed counts when its build was seen to run, any other when its program is
        here; what has no driver here is not offered.
        """
        installed, programs = self._standings(), self._programs()
        others = {e: words for e, words in programs.items() if e not in installed.engines}
        found = self._engine_programs.versions(others)
        ready = {e: version for e, version in installed.versions.items() if e in programs}
        return EnginesHere(versions={**found, **ready}, installs=installed.installs)

    def _declared_shared(self) -> tuple[str, ...]:
        """The folder for downloads, where the settings say that other hosts have it too."""
        folder = self._settings.weights_dir
        return (os.path.normpath(folder),) if self._settings.weights.shared and folder else ()

    def _listed(self) -> tuple[Listing, str, tuple[str, ...]]:
        """The cards, who listed them, and what failed.

        The NVIDIA library is asked if it is wanted and works, else nvidia-smi.
        """
        settings = self._settings.discovery
        if settings.skip_gpus:
            return Listing(), "none", ()
        if not settings.prefer_nvml:
            return self._listed_by_nvidia_smi(settings)
        try:
            return self._read_nvml(), "nvml", ()
        except DiscoveryFailed as error:
            listing, source, failures = self._listed_by_nvidia_smi(settings)
            if not listing.gpus:  # no driver at all is no failure
                return listing, source, failures
            loss = f"{error.message}; nvidia-smi was asked instead: NVLink topology is unknown"
            return listing, source, (loss, *failures)

    def _listed_by_nvidia_smi(
        self, settings: DiscoverySettings
    ) -> tuple[Listing, str, tuple[str, ...]]:
        program = nvidia_smi.find(settings.nvidia_smi, search_path=self._search_path)
        if program is None:
            return Listing(), "none", ()
        found, failures = _attempt(lambda: nvidia_smi.read(program))
        return Listing(gpus=found), "nvidia-smi", failures


def model_folders(settings: AgentSettings) -> tuple[str, ...]:
    """All folders with model files, as configured, the folder for downloads last if not named."""
    folders = (*settings.model_dirs, settings.weights_dir)
    return tuple(dict.fromkeys(os.path.normpath(folder) for folder in folders if folder))


def _under(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _attempt(read: Callable[[], tuple[_T, ...]]) -> tuple[tuple[_T, ...], tuple[str, ...]]:
    """What was read, or nothing and why."""
    try:
        return read(), ()
    except DiscoveryFailed as error:
        return (), (error.message,)
