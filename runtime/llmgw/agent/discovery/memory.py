"""How much memory this machine has."""

from __future__ import annotations

from pathlib import Path

from llmgw.agent.discovery import kernel_files

MEMINFO = Path("/proc/meminfo")


def total_mb(meminfo: Path = MEMINFO) -> int | None:
    """``MemTotal`` in MiB, absent when it cannot be read: then it bounds nothing."""
    return parse(kernel_files.text(meminfo))


def parse(text: str) -> int | None:
    """``MemTotal`` of the text of ``/proc/meminfo``, which is in kB."""
    for line in text.splitlines():
        if line.startswith("MemTotal:"):
            words = line.removeprefix("MemTotal:").split()
            return int(words[0]) // 1024 or None if words and words[0].isdecimal() else None
    return None
