"""The end of a node's log as the admin API shows it."""

from __future__ import annotations

from pydantic import Field

from llmgw.api.schemas.from_view import FromView


class LogTailOut(FromView):
    """The newest lines of one log, the oldest first."""

    lines: tuple[str, ...]
    sources: tuple[str, ...] = Field(description="Every log that the node can show.")
