"""What this process takes from the machine: memory and CPU time, so that a share can be told."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Used:
    """Resident memory, absent where the system does not tell, and CPU time."""

    memory_bytes: int | None
    cpu_s: float

    def since(self, before: Used) -> Used:
        """What came on top."""
        has_both = self.memory_bytes is not None and before.memory_bytes is not None
        return Used(
            memory_bytes=(self.memory_bytes or 0) - (before.memory_bytes or 0)
            if has_both
            else None,
            cpu_s=self.cpu_s - before.cpu_s,
        )


def look() -> Used:
    """What this process has taken up to now."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return Used(memory_bytes=None, cpu_s=time.process_time())
    return Used(memory_bytes=pages * os.sysconf("SC_PAGE_SIZE"), cpu_s=time.process_time())
