"""One look at this machine: every part for itself, so that one failure hides nothing else.

Called by ``facts`` for the control plane and by ``inventory_cmd`` for people; it may block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from llmgw.agent.discovery import (
    address,
    fabrics,
    host,
    infiniband,
    memory,
    nvml,
    storage,
    weights_scan,
)
from llmgw.agent.discovery.card_scan import CardScanner
from llmgw.agent.discovery.engine_programs import EnginePrograms
from llmgw.agent.discovery.findings import (
    Cards,
    EnginesHere,
    Files,
    Hardware,
    Machine,
    Surroundings,
)
from llmgw.agent.discovery.infiniband import Hca
from llmgw.agent.discovery.nvml import Listing
from llmgw.agent.install.standing import Standings
from llmgw.config.settings import AgentSettings
from llmgw.domain.nodes import Storage
from llmgw.errors import DiscoveryFailed


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
        machine: Machine | None = None,
    ) -> None:
        """``programs`` says the words that start each engine; ``search_path`` is ``PATH``.

        ``standings`` tells of engines that were installed here; it may block.
        """
        self._settings = settings
        self._programs = programs
        self._standings = standings
        here = machine or Machine()
        self._root, self._architecture = here.root, here.architecture
        self._engine_programs = EnginePrograms(search_path=search_path)
        self._cards = CardScanner(
            settings=settings.discovery,
            search_path=search_path,
            read_nvml=read_nvml,
            root=here.root,
        )

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
        hcas, failures = self._adapters()
        about_fabrics = fabrics.warnings(
            declared, hcas, mgmt_interface=self._settings.mgmt_interface
        )
        return Surroundings(
            hcas=hcas,
            fabrics=fabrics.check(declared, hcas),
            host=processor,
            failures=failures,
            warnings=(
                *host.warnings(processor),
                *address.warnings(self._settings.mgmt_addr),
                *about_fabrics,
            ),
        )

    def cards(self) -> Cards:
        """The cards alone."""
        return self._cards.look()

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

    def _adapters(self) -> tuple[tuple[Hca, ...], tuple[str, ...]]:
        """The adapters, or none and why."""
        root = self._root / self._settings.discovery.ib_root.lstrip("/")
        try:
            return infiniband.read(root), ()
        except DiscoveryFailed as error:
            return (), (error.message,)

    def _declared_shared(self) -> tuple[str, ...]:
        """The folder for downloads, where the settings say that other hosts have it too."""
        folder = self._settings.weights_dir
        return (os.path.normpath(folder),) if self._settings.weights.shared and folder else ()


def model_folders(settings: AgentSettings) -> tuple[str, ...]:
    """All folders with model files, as configured, the folder for downloads last if not named."""
    folders = (*settings.model_dirs, settings.weights_dir)
    return tuple(dict.fromkeys(os.path.normpath(folder) for folder in folders if folder))
