"""Which cards of a node a shard is given; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmgw.domain.nodes import Gpu


def choose(*, gpus: Sequence[Gpu], free: Sequence[Gpu], count: int) -> tuple[int, ...]:
    """``count`` of the free cards, all behind one NVLink where that is known and possible.

    The smallest domain that is large enough is taken, so that large ones stay whole. ``gpus`` are
    all cards of the node: a link goes through cards that are not free as well.
    """
    domain_of = _domains(gpus)
    by_domain: dict[int, list[int]] = {}
    for gpu in sorted(free, key=lambda g: g.index):
        by_domain.setdefault(domain_of[gpu.index], []).append(gpu.index)
    fitting = [cards for cards in by_domain.values() if len(cards) >= count]
    if _is_known(gpus) and fitting:
        return tuple(min(fitting, key=lambda cards: (len(cards), cards))[:count])
    return tuple(sorted(gpu.index for gpu in free)[:count])


def _is_known(gpus: Sequence[Gpu]) -> bool:
    """Without any link there is nothing to keep together, whether or not somebody looked."""
    return any(gpu.nvlink_peers for gpu in gpus)


def _domains(gpus: Sequence[Gpu]) -> Mapping[int, int]:
    """For each card the lowest index that it is linked to, over any number of links."""
    peers: dict[int, set[int]] = {gpu.index: set() for gpu in gpus}
    for gpu in gpus:
        for peer in gpu.nvlink_peers or ():
            if peer in peers:
                peers[gpu.index].add(peer)
                peers[peer].add(gpu.index)
    domain_of: dict[int, int] = {}
    for start in sorted(peers):
        ahead = [start] if start not in domain_of else []
        while ahead:
            index = ahead.pop()
            if index not in domain_of:
                domain_of[index] = start
                ahead.extend(peers[index])
    return domain_of
