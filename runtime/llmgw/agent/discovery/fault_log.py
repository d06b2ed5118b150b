"""Keeps what the kernel's log has said of each card, over the looks of one scanner."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from llmgw.agent.discovery import xids
from llmgw.agent.discovery.kernel_log import KernelLog


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults by PCI address, and what a person should know of how they were looked for."""

    by_bus_id: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class FaultLog:
    """Reads on in the kernel's log at each look; a machine without one has no faults."""

    def __init__(self, path: Path) -> None:
        """``path`` is the kernel's log; the folder itself means that it is not to be read."""
        self._path = path
        self._log = KernelLog(path)
        self._known: Mapping[str, str] = {}

    def faults(self) -> Faults:
        """All faults so far; what was known stays known when the log cannot be read."""
        if not self._path.exists() or self._path.is_dir():
            return Faults(self._known)
        try:
            self._known = xids.faults(self._known, self._log.news())
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            unseen = f"{self._path} cannot be read ({reason}): Xid errors of cards are not seen"
            return Faults(self._known, warnings=(unseen,))
        return Faults(self._known)

    def close(self) -> None:
        """Let the log go."""
        self._log.close()
