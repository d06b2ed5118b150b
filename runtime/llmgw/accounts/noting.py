"""Tells the log of acts what was done to keys and limits, and what was refused.

What is done is written with the change itself; a refusal has no change, so it is written alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from llmgw.accounts.key_ports import Acts
from llmgw.domain.actors import Actor
from llmgw.domain.stored import AuditEntry
from llmgw.errors import LlmgwError, Unavailable
from llmgw.kit.clock import Clock

DONE = "done"


class Telling:
    """Makes the entries of one room's acts."""

    def __init__(self, acts: Acts | None, *, clock: Clock) -> None:
        """Without ``acts`` nothing is told here: the admin API tells of each request itself."""
        self._acts = acts
        self._clock = clock

    @asynccontextmanager
    async def of(
        self,
        actor: Actor,
        action: str,
        *,
        target: str,
        after: Mapping[str, object] | None = None,
    ) -> AsyncIterator[AuditEntry | None]:
        """The entry to write with the change; a refusal inside is told and goes on."""
        if self._acts is None:
            yield None
            return
        entry = AuditEntry(
            at=self._clock.wall(),
            actor=actor.name,
            origin=actor.origin,
            action=action,
            target=target,
            outcome=DONE,
            after=after,
            request_id=actor.request_id,
        )
        try:
            yield entry
        except Unavailable:
            raise  # the store is away: there is nothing to write it to
        except LlmgwError as error:
            await self._acts.append(replace(entry, outcome=error.code))
            raise
