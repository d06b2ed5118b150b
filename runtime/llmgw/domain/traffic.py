"""What the gateways know of endpoints and of what is asked for: values that ``serve`` hands on.

Times are seconds of the monotonic clock.  What nobody knows is absent, which is not zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EndpointTraffic:
    """One endpoint, as all gateways together see it.

    ``inflight`` is what was sent there and has not ended.  ``last_used_at`` is absent for one that
    nobody has used since the gateways began; that says nothing of the time before.
    ``ejected_at`` is when it was taken out of use because it made no progress, absent while it is
    in use; ``is_stalled`` where it answers all the same, so that its agent finds it well.
    ``answered_at`` is when a byte of an answer last came from there.
    """

    inflight: int
    last_used_at: float | None = None
    ejected_at: float | None = None
    is_stalled: bool = False
    answered_at: float | None = None

    def is_answering(self, *, now: float, within_s: float) -> bool:
        """Whether clients have got answers from it lately, and nothing is said against it."""
        if self.answered_at is None or self.ejected_at is not None:
            return False
        return now - self.answered_at <= within_s


@dataclass(frozen=True, slots=True)
class Traffic:
    """All endpoints, and the models that requests wait for.

    ``has_latest_table``: every gateway works with the last table, so that one that drains is sent
    nothing more.
    """

    endpoints: Mapping[str, EndpointTraffic] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    has_latest_table: bool = False
