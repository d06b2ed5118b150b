"""What all gateways of a site know together, of what each of them told; pure.

A gateway that is known and silent may be sending requests anywhere.  Then only what is certainly in
use is told of: an endpoint of which nothing is told is not idle, and nothing ends for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from llmgw.domain.traffic import EndpointTraffic, Traffic


def joined(told: Iterable[Traffic], *, is_whole: bool, known_since: float | None) -> Traffic:
    """The traffic of all that told; ``is_whole`` where nobody is silent.

    ``known_since`` is when the last gateway joined whose earlier life nobody knows: what was used
    before is taken as used then.
    """
    parts = tuple(told)
    names = dict.fromkeys(name for part in parts for name in part.endpoints)
    endpoints = {
        name: _of_all([part.endpoints[name] for part in parts if name in part.endpoints])
        for name in names
    }
    return Traffic(
        endpoints={
            name: _not_before(one, known_since)
            for name, one in endpoints.items()
            if is_whole or one.inflight
        },
        asked=frozenset[str]().union(*(part.asked for part in parts)),
        has_latest_table=is_whole and all(part.has_latest_table for part in parts),
    )


def _of_all(seen: Sequence[EndpointTraffic]) -> EndpointTraffic:
    """It makes no progress where one gateway says so and none is at work there."""
    ejected = [one for one in seen if one.ejected_at is not None]
    is_at_work = any(one.inflight for one in seen if one.ejected_at is None)
    ejected_at = max((one.ejected_at for one in ejected if one.ejected_at is not None), default=0.0)
    is_ejected = bool(ejected) and not is_at_work
    return EndpointTraffic(
        inflight=sum(one.inflight for one in seen),
        last_used_at=max(
            (one.last_used_at for one in seen if one.last_used_at is not None), default=None
        ),
        ejected_at=ejected_at if is_ejected else None,
        is_stalled=is_ejected and any(one.is_stalled for one in ejected),
        answered_at=max(
            (one.answered_at for one in seen if one.answered_at is not None), default=None
        ),
    )


def _not_before(one: EndpointTraffic, known_since: float | None) -> EndpointTraffic:
    if known_since is None or one.last_used_at is None or one.last_used_at >= known_since:
        return one
    return replace(one, last_used_at=known_since)
