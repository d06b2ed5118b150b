"""How a download stands on a node: the agent tells it, heartbeats carry it, people see it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from llmgw.domain.replicas import FetchProgress


class FetchState(enum.StrEnum):
    """Where a source is between being named and being there."""

    ABSENT = "absent"
    WAITING = "waiting"
    """Another process fetches it into the same folder."""
    LOOKING = "looking"
    """Its source is asked what belongs to it."""
    FETCHING = "fetching"
    PRESENT = "present"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class FetchStatus:
    """One source: how much of it is here, how fast the rest comes, what went wrong.

    ``source`` is without secrets; ``name`` is the one in the folder of downloads, empty for what is
    not downloaded. Figures that are not known are absent.
    """

    source: str
    name: str
    state: FetchState
    path: str = ""
    done_bytes: int = 0
    total_bytes: int | None = None
    bytes_per_s: float | None = None
    error: str = ""
    is_ordered: bool = False
    """Somebody wants it here ahead of whatever will start with it."""

    @property
    def eta_s(self) -> float | None:
        """Seconds until all has come, where that can be told."""
        return FetchProgress(self.source, self.done_bytes, self.total_bytes, self.bytes_per_s).eta_s
