"""InfiniBand and RoCE adapters as the kernel lists them in sysfs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llmgw.agent.discovery import kernel_files
from llmgw.errors import DiscoveryFailed


@dataclass(frozen=True, slots=True)
class HcaPort:
    """One port of an adapter."""

    num: int
    state: str = ""
    phys_state: str = ""
    rate_gbps: int | None = None
    link_layer: str = ""
    """``InfiniBand``, or ``Ethernet`` for RoCE."""

    gid_prefix: str = ""
    lid: int | None = None
    sm_lid: int | None = None

    @property
    def is_active(self) -> bool:
        """It carries traffic; one that only waits for a subnet manager (INIT) does not."""
        return self.state.upper() == "ACTIVE"

    @property
    def is_native(self) -> bool:
        """InfiniBand all the way, not RoCE."""
        return self.link_layer == "InfiniBand"

    @property
    def lacks_manager(self) -> bool:
        """The cable is fine and nobody has configured the port; only InfiniBand waits like that."""
        return self.state.upper() == "INIT" and self.link_layer != "Ethernet"


@dataclass(frozen=True, slots=True)
class Hca:
    """One adapter."""

    name: str
    ports: tuple[HcaPort, ...]
    pci_addr: str = ""
    numa_node: int | None = None
    firmware_version: str = ""
    interfaces: tuple[str, ...] = ()
    """The network interfaces on it: IPoIB, or the Ethernet of a RoCE card."""


def read(root: Path) -> tuple[Hca, ...]:
    """Adapters by name; none without the folder, ``DiscoveryFailed`` if it cannot be listed."""
    try:
        folders = sorted(root.iterdir(), key=lambda folder: folder.name)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise DiscoveryFailed(f"{root} cannot be listed: {error.strerror}") from error
    return tuple(hca for folder in folders if (hca := _hca(folder)) is not None)


def state_word(text: str) -> str:
    """``ACTIVE`` of ``4: ACTIVE``."""
    number, colon, word = text.partition(":")
    return word.strip() if colon else number.strip()


def rate(text: str) -> int | None:
    """200 of ``200 Gb/sec (4X HDR)``."""
    words = text.split()
    try:
        return int(float(words[0])) if words else None
    except (ValueError, OverflowError):
        return None


def local_id(text: str) -> int | None:
    """A LID in hexadecimal (``0x1a``) or decimal form."""
    try:
        return int(text, 16) if text.lower().startswith("0x") else int(text)
    except ValueError:
        return None


def gid_prefix(gid: str) -> str:
    """The first four groups of a GID, or nothing if it has fewer."""
    groups = gid.lower().split(":")
    return ":".join(groups[:4]) if len(groups) >= 4 and all(groups[:4]) else ""


def _hca(folder: Path) -> Hca | None:
    try:
        numbers = sorted(int(p.name) for p in (folder / "ports").iterdir() if p.name.isdecimal())
    except OSError:
        return None
    device = folder / "device"
    return Hca(
        name=folder.name,
        ports=tuple(_ports(folder / "ports", numbers)),
        pci_addr=device.resolve().name if device.exists() else "",
        numa_node=kernel_files.numa_node(device),
        firmware_version=kernel_files.line(folder / "fw_ver"),
        interfaces=_interfaces(device / "net"),
    )


def _ports(folder: Path, numbers: list[int]) -> Iterator[HcaPort]:
    for number in numbers:
        port = folder / str(number)
        yield HcaPort(
            num=number,
            state=state_word(kernel_files.line(port / "state")),
            phys_state=state_word(kernel_files.line(port / "phys_state")),
            rate_gbps=rate(kernel_files.line(port / "rate")),
            link_layer=kernel_files.line(port / "link_layer"),
            gid_prefix=gid_prefix(kernel_files.line(port / "gids" / "0")),
            lid=local_id(kernel_files.line(port / "lid")),
            sm_lid=local_id(kernel_files.line(port / "sm_lid")),
        )


def _interfaces(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(interface.name for interface in folder.iterdir()))
    except OSError:
        return ()
