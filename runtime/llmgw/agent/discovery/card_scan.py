"""One look at the cards: by NVIDIA's library or by nvidia-smi, with what others know of them.

It may block for as long as a driver hangs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from llmgw.agent.discovery import gpus, numa, nvidia_smi
from llmgw.agent.discovery.fault_log import FaultLog, Faults
from llmgw.agent.discovery.findings import Cards
from llmgw.agent.discovery.nvml import Listing
from llmgw.config.tending import DiscoverySettings
from llmgw.errors import DiscoveryFailed


class CardScanner:
    """Reads the cards of this machine as the settings say."""

    def __init__(
        self,
        *,
        settings: DiscoverySettings,
        search_path: str | None,
        read_nvml: Callable[[], Listing],
        root: Path,
    ) -> None:
        """``search_path`` is ``PATH``; ``root`` is where the machine's files are."""
        self._settings = settings
        self._search_path = search_path
        self._read_nvml = read_nvml
        self._root = root
        self._fault_log = FaultLog(root / settings.kernel_log.lstrip("/"))

    def look(self) -> Cards:
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

    def _listed(self) -> tuple[Listing, str, tuple[str, ...]]:
        """The cards, who listed them, and what failed.

        The NVIDIA library is asked if it is wanted and works, else nvidia-smi.
        """
        if self._settings.skip_gpus:
            return Listing(), "none", ()
        if not self._settings.prefer_nvml:
            return self._listed_by_nvidia_smi()
        try:
            return self._read_nvml(), "nvml", ()
        except DiscoveryFailed as error:
            listing, source, failures = self._listed_by_nvidia_smi()
            if not listing.gpus:  # no driver at all is no failure
                return listing, source, failures
            loss = f"{error.message}; nvidia-smi was asked instead: NVLink topology is unknown"
            return listing, source, (loss, *failures)

    def _listed_by_nvidia_smi(self) -> tuple[Listing, str, tuple[str, ...]]:
        program = nvidia_smi.find(self._settings.nvidia_smi, search_path=self._search_path)
        if program is None:
            return Listing(), "none", ()
        try:
            return Listing(gpus=nvidia_smi.read(program)), "nvidia-smi", ()
        except DiscoveryFailed as error:
            return Listing(), "nvidia-smi", (error.message,)
