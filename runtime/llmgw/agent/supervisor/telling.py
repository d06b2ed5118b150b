"""Where one shard stands, as its agent says it: legal steps only, and a report of each.

``shard`` decides the steps. The newest report is kept, because an order that comes twice is
answered by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llmgw.domain.replicas import FetchProgress, ShardReport, ShardSpec, ShardState, step
from llmgw.kit import logs

_log = logs.get(__name__)


class Standing:
    """The state of one shard, told at every change."""

    def __init__(
        self, spec: ShardSpec, *, node_id: str, on_report: Callable[[ShardReport], None]
    ) -> None:
        """Begin as PENDING, which is told only when asked for."""
        self.state = ShardState.PENDING
        self._on_report = on_report
        self._latest = ShardReport(
            node_id=node_id,
            replica_id=spec.replica_id,
            shard_id=spec.shard_id,
            state=ShardState.PENDING,
        )

    def tell(self) -> None:
        """Report the present state (again)."""
        self._on_report(self._latest)

    def tell_fetch(self, progress: FetchProgress) -> None:
        """Report a download, which is news and no step: the state stays PENDING."""
        if self.state is ShardState.PENDING:
            self._on_report(replace(self._latest, fetch=progress))

    def tell_drained(self) -> None:
        """Report that the draining engine has no request any more."""
        if self.state is ShardState.DRAINING:
            self._latest = replace(self._latest, is_drained=True)
            self.tell()

    def move(
        self,
        to: ShardState,
        *,
        error: str = "",
        exit_code: int | None = None,
        last_output: tuple[str, ...] = (),
    ) -> None:
        """Take a step and report it; ``IllegalTransition`` when the table has no such step."""
        shard_id = self._latest.shard_id
        self.state = step(shard=shard_id, now=self.state, to=to)
        self._latest = replace(
            self._latest,
            state=to,
            error=error,
            exit_code=exit_code,
            last_output=last_output,
            is_drained=False,
        )
        _log.info("shard_state", shard=shard_id, state=to, error=error or None)
        self.tell()
