"""The wait after a start, so that nothing is placed on half a fleet; pure.

It ends when the expected nodes are there, when their number has not moved for half the window, or
with the window. A node that joins later is ordinary. Adoption never waits for it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from llmgw.domain.snapshots import Settling

_STEADY_SHARE = 0.5


def begun(*, now: float) -> Settling:
    """The wait at its start, with no node seen."""
    return Settling(started_at=now, count_since_at=now)


def noted(
    settling: Settling,
    *,
    registered: Collection[str],
    expected: Collection[str],
    now: float,
    window_s: float,
) -> Settling:
    """The wait after another look at the nodes that have registered."""
    if settling.is_over:
        return settling
    if len(registered) != settling.count:
        settling = replace(settling, count=len(registered), count_since_at=now)
    is_complete = bool(expected) and set(expected) <= set(registered)
    is_over = is_complete or left_s(settling, now=now, window_s=window_s) <= 0
    return replace(settling, is_over=is_over)


def left_s(settling: Settling, *, now: float, window_s: float) -> float:
    """Seconds until it ends if no further node comes."""
    if settling.is_over:
        return 0.0
    steady_s = settling.count_since_at + window_s * _STEADY_SHARE - now
    return max(0.0, min(settling.started_at + window_s - now, steady_s))
