"""PCI addresses of cards, which every source spells its own way; pure."""

from __future__ import annotations


def normal(bus_id: str) -> str:
    """One spelling for all, however long the domain is written: ``1b:00.0``."""
    domain, colon, rest = bus_id.strip().lower().partition(":")
    if not colon:
        return domain
    if ":" not in rest:  # no domain was written
        return f"{domain}:{rest}"
    short = domain.lstrip("0")
    return f"{short}:{rest}" if short else rest


def of_sysfs(bus_id: str) -> str:
    """The name of its folder below ``/sys/bus/pci/devices``: ``0000:1b:00.0``."""
    parts = normal(bus_id).split(":")
    domain = parts[0] if len(parts) > 2 else ""
    return ":".join((domain.rjust(4, "0"), *parts[-2:]))
