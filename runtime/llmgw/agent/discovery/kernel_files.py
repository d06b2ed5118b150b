"""Small files in which the kernel tells of the machine: what cannot be read tells nothing."""

from __future__ import annotations

from pathlib import Path


def text(path: Path) -> str:
    """All of a file; empty where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def line(path: Path) -> str:
    """A file of one line, without its end."""
    return text(path).strip()


def numa_node(device: Path) -> int | None:
    """The node that the device of this folder is near to; the kernel writes -1 for none."""
    number = line(device / "numa_node")
    return int(number) if number.isdecimal() else None
