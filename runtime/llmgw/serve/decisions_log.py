"""What the last passes did, from the journal of this server; fits ``api.ports.Decisions``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from llmgw.control.recorder import glancing
from llmgw.domain.decided import DecidedPass
from llmgw.errors import Conflict


@dataclass(frozen=True, slots=True)
class DecisionsLog:
    """The journal below ``state_dir``, where one is kept."""

    state_dir: Path
    is_kept: bool

    async def decisions(self, *, limit: int, since: float | None) -> Sequence[DecidedPass]:
        """See ``api.ports.Decisions``."""
        if not self.is_kept:
            raise Conflict(
                "this server keeps no journal of its passes; set control.journal_bytes above 0"
            )
        return await asyncio.to_thread(glancing.last, self.state_dir, limit=limit, since=since)
