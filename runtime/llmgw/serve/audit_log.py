"""Keeps the log of acts in the store, and in the server's own log in any case.

Fits ``api.ports.Audit``. While the store does not answer entries wait here, bounded; the log grows
to the age and number that the settings say.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from llmgw.config.settings import AuditSettings
from llmgw.domain.actors import Actor
from llmgw.domain.stored import AuditEntry, AuditFilter
from llmgw.errors import LlmgwError, NoStore, Unavailable
from llmgw.kit import logs
from llmgw.kit.clock import Clock

MOST_WAITING = 1000
_WITHIN_S = 2.0
"""An answer does not wait longer for its entry; the entry then goes with the next one."""
_PRUNED_EVERY_S = 3600.0
_DAY_S = 86400.0
_LONGEST = 500
_MOST_CHARS = 8192
"""Of what was before or after an act, as JSON."""

_log = logs.get(__name__)


class Entries(Protocol):
    """What the store keeps; ``store.audit_repo.AuditRepo`` fits."""

    async def append(self, entry: AuditEntry) -> None:
        """Keep one."""
        ...

    async def page(
        self, wanted: AuditFilter | None = None, *, limit: int = ...
    ) -> Sequence[AuditEntry]:
        """The newest ones that pass."""
        ...

    async def prune(self, *, before: float, keep: int | None = None) -> int:
        """Let go of old ones."""
        ...


class AuditLog:
    """The log of acts of one server."""

    def __init__(
        self,
        entries: Entries | None,
        *,
        settings: AuditSettings,
        clock: Clock,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """Without ``entries`` acts are in the server's own log alone."""
        self._most_waiting = most_waiting
        self._entries = entries
        self._settings = settings
        self._clock = clock
        self._waiting: deque[AuditEntry] = deque()
        self._turn = asyncio.Lock()
        self._pruned_at = float("-inf")
        self.dropped = 0

    async def note(
        self,
        actor: Actor,
        *,
        action: str,
        target: str,
        outcome: str,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
    ) -> None:
        """Keep one act; a store that is away has it later."""
        entry = AuditEntry(
            at=self._clock.wall(),
            actor=actor.name,
            origin=actor.origin,
            action=action,
            target=target[:_LONGEST],
            outcome=outcome,
            before=_bounded(before),
            after=_bounded(after),
            request_id=actor.request_id,
        )
        _log.info(
            "act",
            action=action,
            target=entry.target or None,
            outcome=outcome,
            actor=actor.name,
            origin=actor.origin,
            request_id=actor.request_id or None,
        )
        if self._entries is not None:
            self._wait(entry)
            await self._bring(self._entries)

    async def page(self, wanted: AuditFilter, *, limit: int) -> Sequence[AuditEntry]:
        """The newest acts that pass; ``NoStore`` where none are kept."""
        if self._entries is None:
            raise NoStore(
                "this server has no store, so acts are in its log only (event `act`); "
                "set auth.store to have them kept"
            )
        return await self._entries.page(wanted, limit=limit)

    def _wait(self, entry: AuditEntry) -> None:
        self._waiting.append(entry)
        while len(self._waiting) > self._most_waiting:
            self._waiting.popleft()
            self.dropped += 1

    async def _bring(self, entries: Entries) -> None:
        """Write what waits, oldest first, as far as the store and the time allow."""
        try:
            async with asyncio.timeout(_WITHIN_S), self._turn:
                while self._waiting:
                    await self._keep(entries, self._waiting[0])
                    self._waiting.popleft()
                await self._prune(entries)
        except (LlmgwError, TimeoutError) as error:
            _log.warning(
                "acts_wait_for_store",
                waiting=len(self._waiting),
                dropped=self.dropped or None,
                reason=str(error) or f"no answer within {_WITHIN_S:g} s",
            )

    async def _keep(self, entries: Entries, entry: AuditEntry) -> None:
        """Write one; what no store will ever take must not hold up those behind it."""
        try:
            await entries.append(entry)
        except Unavailable:
            raise
        except LlmgwError as error:
            self.dropped += 1
            _log.error("act_not_kept", action=entry.action, reason=error.message, exc=error)

    async def _prune(self, entries: Entries) -> None:
        now = self._clock.monotonic()
        if now - self._pruned_at < _PRUNED_EVERY_S:
            return
        self._pruned_at = now
        oldest = self._clock.wall() - self._settings.retain_days * _DAY_S
        await entries.prune(before=oldest, keep=self._settings.max_entries)


def _bounded(told: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """What a store can keep of it: JSON, and not without end."""
    if told is None:
        return None
    text = json.dumps(told, default=str)
    if len(text) > _MOST_CHARS:
        return {"left_out": f"{len(told)} facts of {len(text)} characters"}
    kept: Mapping[str, object] = json.loads(text)
    return kept
