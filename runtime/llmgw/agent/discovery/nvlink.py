"""Which cards reach each other over NVLink, directly or through switches; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmgw.agent.discovery import bus_ids


@dataclass(frozen=True, slots=True)
class Links:
    """What one card says of its links.

    ``remotes`` are the PCI addresses at their other ends, in the order of the links. ``clique`` is
    the group of cards that a fabric manager lets talk to each other, where it names one.
    """

    bus_id: str
    remotes: tuple[str, ...] = ()
    has_switch: bool = False
    clique: str = ""


def peers(links_by_index: Mapping[int, Links]) -> Mapping[int, tuple[int, ...]]:
    """For each card the others that it reaches: first by its own links, in their order.

    A link to a switch leads to every other card with one, unless a fabric manager has divided them:
    switches are not listed as devices, so nothing more is known of what lies behind them.
    """
    index_by_bus = {bus_ids.normal(links.bus_id): i for i, links in links_by_index.items()}
    return {
        index: _of_one(index, links, links_by_index=links_by_index, index_by_bus=index_by_bus)
        for index, links in links_by_index.items()
    }


def _of_one(
    index: int,
    links: Links,
    *,
    links_by_index: Mapping[int, Links],
    index_by_bus: Mapping[str, int],
) -> tuple[int, ...]:
    direct = [index_by_bus.get(bus_ids.normal(remote)) for remote in links.remotes]
    switched = [
        other
        for other, theirs in sorted(links_by_index.items())
        if links.has_switch and theirs.has_switch and theirs.clique == links.clique
    ]
    found = dict.fromkeys(peer for peer in (*direct, *switched) if peer is not None)
    found.pop(index, None)
    return tuple(found)
