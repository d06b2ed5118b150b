"""A download that callers wait for: how far it is, and who hears of it.

``fetching`` keeps one a source while it is under way; ``flights`` does the work and tells it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from llmgw.agent.weights.paces import Pace
from llmgw.domain import weights
from llmgw.domain.fetch_status import FetchState, FetchStatus
from llmgw.domain.replicas import FetchProgress
from llmgw.errors import LlmgwError

OnProgress = Callable[[FetchProgress], None]

PROGRESS_INTERVAL_S = 2.0


@dataclass(slots=True)
class Journey:
    """One source on its way; it goes on while somebody waits or once it was provisioned."""

    source: str
    target: Path
    now: Callable[[], float]
    task: asyncio.Task[LlmgwError | None] = field(init=False)
    watchers: list[OnProgress] = field(default_factory=list)
    is_provisioned: bool = False
    _state: FetchState = FetchState.LOOKING
    _done_bytes: int = 0
    _total_bytes: int | None = None
    _reported_at: float | None = None
    _pace: Pace = field(default_factory=Pace)

    @property
    def is_wanted(self) -> bool:
        """Whether anybody would miss it."""
        return bool(self.watchers) or self.is_provisioned

    def watch(self, on_progress: OnProgress) -> None:
        """Tell one more, at once if there is something to tell."""
        self.watchers.append(on_progress)
        if self._reported_at is not None:
            on_progress(self._progress())

    def heard(self, state: FetchState, done_bytes: int, total_bytes: int | None) -> None:
        """Tell every watcher: the first time, the last time, and at most every two seconds."""
        self._state, self._done_bytes, self._total_bytes = state, done_bytes, total_bytes
        now = self.now()
        since = None if self._reported_at is None else now - self._reported_at
        is_due = since is None or since >= PROGRESS_INTERVAL_S or state is FetchState.PRESENT
        if state is FetchState.LOOKING or not is_due:
            return
        self._reported_at = now
        self._pace.note(done_bytes=done_bytes, at_s=now)
        for watcher in list(self.watchers):
            watcher(self._progress())

    def status(self) -> FetchStatus:
        """How it stands now."""
        now = self._progress()
        return FetchStatus(
            source=now.source,
            name=self.target.name,
            state=self._state,
            done_bytes=now.done_bytes,
            total_bytes=now.total_bytes,
            bytes_per_s=now.bytes_per_s,
            is_ordered=self.is_provisioned,
        )

    def failed(self, error: LlmgwError) -> FetchStatus:
        """How it stands once it has failed."""
        return FetchStatus(
            source=weights.shown(self.source),
            name=self.target.name,
            state=FetchState.FAILED,
            done_bytes=self._done_bytes,
            total_bytes=self._total_bytes,
            error=error.message,
            is_ordered=self.is_provisioned,
        )

    def _progress(self) -> FetchProgress:
        return FetchProgress(
            source=weights.shown(self.source),
            done_bytes=self._done_bytes,
            total_bytes=self._total_bytes,
            bytes_per_s=self._pace.bytes_per_s(),
        )
