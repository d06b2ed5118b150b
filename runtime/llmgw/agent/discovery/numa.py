"""Which processors and which memory are near each other, as the kernel lists them in sysfs."""

from __future__ import annotations

from pathlib import Path

from llmgw.agent.discovery import bus_ids, kernel_files, memory
from llmgw.domain.nodes import NumaNode

_NODES = "sys/devices/system/node"
_DEVICES = "sys/bus/pci/devices"


def read(root: Path) -> tuple[NumaNode, ...]:
    """The nodes by number; none where the kernel tells nothing of them."""
    try:
        names = [p.name.removeprefix("node") for p in (root / _NODES).glob("node*")]
    except OSError:
        return ()
    numbers = sorted(int(name) for name in names if name.isdecimal())
    return tuple(_node(root / _NODES / f"node{number}", number) for number in numbers)


def of_device(root: Path, bus_id: str) -> int | None:
    """The node that a card is near to, where the kernel knows one."""
    if not bus_id:
        return None
    return kernel_files.numa_node(root / _DEVICES / bus_ids.of_sysfs(bus_id))


def _node(folder: Path, number: int) -> NumaNode:
    return NumaNode(
        number=number,
        cpus=kernel_files.line(folder / "cpulist"),
        memory_total_mb=memory.parse(_unprefixed(kernel_files.text(folder / "meminfo"), number)),
    )


def _unprefixed(meminfo: str, number: int) -> str:
    """The text without the ``Node 0`` that begins each of its lines."""
    return "\n".join(
        line.strip().removeprefix(f"Node {number}").strip() for line in meminfo.splitlines()
    )
