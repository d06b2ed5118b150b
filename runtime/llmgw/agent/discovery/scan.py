"""One look at this machine: every part for itself, so that one failure hides nothing else.

Called by ``facts`` for the control plane and by ``inventory_cmd`` for people; it may block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from llmgw.agent.discovery import (
    engines_probe,
    fabrics,
    host,
    infiniband,
    memory,
    nvidia_smi,
    nvml,
    storage,
    weights_scan,
)
from llmgw.agent.discovery.fabrics import FabricCheck
from llmgw.agent.discovery.infiniband import Hca
from llmgw.agent.install.standing import Standings
from llmgw.config.settings import AgentSettings, DiscoverySettings
from llmgw.domain.nodes import EngineInstall, Gpu, Host, LocalWeights, Storage
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


@dataclass(frozen=True, slots=True)
class Hardware:
    """Everything that is not a file of ours."""

    cards: Cards = Cards()
    hcas: tuple[Hca, ...] = ()
    fabrics: tuple[FabricCheck, ...] = ()
    memory_total_mb: int | None = None
    host: Host = field(default_factory=Host)
    failures: tuple[str, ...] = ()
    """One sentence for each part that could not be read."""


@dataclass(frozen=True, slots=True)
class EnginesHere:
    """Version by engine of what can be started here, and how what was installed stands."""

    versions: Mapping[str, str] = field(default_factory=dict)
    installs: tuple[EngineInstall, ...] = ()


class Scanner:
    """Reads this machine as the settings say."""

    def __init__(
        self,
        *,
        settings: AgentSettings,
        programs: Callable[[], Mapping[str, Sequence[str]]],
        search_path: str | None,
        read_nvml: Callable[[], tuple[Gpu, ...]] = nvml.read,
        standings: Callable[[], Standings] = Standings,
    ) -> None:
        """``programs`` says the words that start each engine; ``search_path`` is ``PATH``.

        ``standings`` tells of engines that were installed here; it may block.
        """
        self._settings = settings
        self._programs = programs
        self._search_path = search_path
        self._read_nvml = read_nvml
        self._standings = standings

    def files(self) -> Files:
        """Space and weights in the model folders; ``weights_dir`` is always one of them."""
        folders = model_folders(self._settings)
        return Files(storage=storage.read(folders), weights=weights_scan.scan(folders))

    def space(self) -> tuple[Storage, ...]:
        """Space alone."""
        return storage.read(model_folders(self._settings))

    def hardware(self) -> Hardware:
        """Memory and processor first, which never fail, then cards, then adapters."""
        memory_total_mb, processor = self.memory_total_mb(), host.read()
        cards = self.cards()
        root = Path(self._settings.discovery.ib_root)
        hcas, failures = _attempt(lambda: infiniband.read(root))
        return Hardware(
            cards=cards,
            hcas=hcas,
            fabrics=fabrics.check(self._settings.fabrics, hcas),
            memory_total_mb=memory_total_mb,
            host=processor,
            failures=(*cards.failures, *failures),
        )

    def cards(self) -> Cards:
        """The cards, from the NVIDIA library if it is wanted and works, else from nvidia-smi."""
        settings = self._settings.discovery
        if settings.skip_gpus:
            return Cards()
        if not settings.prefer_nvml:
            return self._cards_of_nvidia_smi(settings)
        try:
            return Cards(gpus=self._read_nvml(), source="nvml")
        except DiscoveryFailed as error:
            cards = self._cards_of_nvidia_smi(settings)
            if not cards.gpus:  # no driver at all is no failure
                return cards
            loss = f"{error.message}; nvidia-smi was asked instead: NVLink topology is unknown"
            return Cards(gpus=cards.gpus, source=cards.source, failures=(loss, *cards.failures))

    def memory_total_mb(self) -> int | None:
        """Memory of the machine; a VM may be given more while it runs."""
        return memory.total_mb()

    def engines(self) -> EnginesHere:
        """The engines that can be started here, and how the installed ones stand.

        One that was installed counts when its build was seen to run, any other when its program is
        here; what has no driver here is not offered.
        """
        installed, programs = self._standings(), self._programs()
        others = {e: words for e, words in programs.items() if e not in installed.engines}
        found = engines_probe.probe(others, search_path=self._search_path)
        ready = {e: version for e, version in installed.versions.items() if e in programs}
        return EnginesHere(versions={**found, **ready}, installs=installed.installs)

    def _cards_of_nvidia_smi(self, settings: DiscoverySettings) -> Cards:
        program = nvidia_smi.find(settings.nvidia_smi, search_path=self._search_path)
        if program is None:
            return Cards()
        found, failures = _attempt(lambda: nvidia_smi.read(program))
        return Cards(gpus=found, source="nvidia-smi", failures=failures)


def model_folders(settings: AgentSettings) -> tuple[str, ...]:
    """All folders with model files, as configured, the folder for downloads last if not named."""
    folders = (*settings.model_dirs, settings.weights_dir)
    return tuple(dict.fromkeys(os.path.normpath(folder) for folder in folders if folder))


def _attempt(read: Callable[[], tuple[_T, ...]]) -> tuple[tuple[_T, ...], tuple[str, ...]]:
    """What was read, or nothing and why."""
    try:
        return read(), ()
    except DiscoveryFailed as error:
        return (), (error.message,)
