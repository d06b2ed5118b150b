"""How many threads an engine on this machine's processors should get."""

from __future__ import annotations

import math
import os
from pathlib import Path

_MOST = 16
"""Beyond this a small model gets slower: its layers are too short to be split further."""


def engine_threads(
    *, cpuinfo: Path = Path("/proc/cpuinfo"), quota: Path = Path("/sys/fs/cgroup/cpu.max")
) -> int:
    """One a real core that this process may use, less one for everything else; at least one.

    With all cores taken, llama.cpp's spinning threads wait for each other whenever anything else
    runs: two threads on two busy cores gave 2-8 tokens a second where one gave 60.
    """
    usable = min(_cores(cpuinfo), _allowed(quota))
    return max(1, min(usable - 1, _MOST))


def _cores(cpuinfo: Path) -> int:
    """Cores without their second hardware threads, among those that this process may run on."""
    allowed = os.sched_getaffinity(0)
    cores = set()
    try:
        blocks = cpuinfo.read_text().split("\n\n")
    except OSError:
        return len(allowed)
    for block in blocks:
        facts = dict(line.partition(":")[::2] for line in block.splitlines())
        named = {key.strip(): value.strip() for key, value in facts.items()}
        number = named.get("processor", "")
        if number.isdigit() and int(number) in allowed:
            cores.add((named.get("physical id", "0"), named.get("core id", number)))
    return len(cores) or len(allowed)


def _allowed(quota: Path) -> int:
    """Whole processors of the cgroup's quota; no bound where there is none."""
    try:
        most, period = quota.read_text().split()
        return max(1, math.floor(int(most) / int(period)))
    except (OSError, ValueError):
        return len(os.sched_getaffinity(0))
