"""Which TCP ports of a node a new shard is given; pure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from itertools import islice


def lowest_free(
    port_range: tuple[int, int], *, taken: AbstractSet[int], how_many: int
) -> tuple[int, ...]:
    """The lowest free ports of a range that includes both ends; fewer when there are no more."""
    first, last = port_range
    return tuple(islice((p for p in range(first, last + 1) if p not in taken), how_many))


def lowest_row(
    port_range: tuple[int, int], *, taken: AbstractSet[int], how_many: int
) -> tuple[int, ...]:
    """The lowest free ports that follow each other; none where there is no such row."""
    if not how_many:
        return ()
    first, last = port_range
    begin = first
    for port in range(first, last + 1):
        if port in taken:
            begin = port + 1
        elif port - begin + 1 == how_many:
            return tuple(range(begin, port + 1))
    return ()
