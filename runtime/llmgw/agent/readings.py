"""Joins what the machine says with what its engines do, into one reading for each heartbeat.

``serve`` makes one of discovery and orders; fits the session's ``Facts``.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Protocol

from llmgw.agent.node_ports import Facts
from llmgw.domain.fetch_status import FetchStatus
from llmgw.domain.nodes import HeartbeatFacts, NodeFacts
from llmgw.domain.work import ShardWork
from llmgw.errors import LlmgwError
from llmgw.kit import logs
from llmgw.kit.late_work import LateWork

_log = logs.get(__name__)
_NOTHING = HeartbeatFacts()


class Workers(Protocol):
    """Says what the shards of this node have done, and what is fetched for them."""

    async def work(self) -> tuple[ShardWork, ...]:
        """Of each live shard what it has used so far."""
        ...

    def fetches(self) -> tuple[FetchStatus, ...]:
        """Downloads under way, and those that failed."""
        ...


class Readings:
    """The facts of a node, its shards' work among them.

    What its engines do is said with every beat, however long its tools take: without that an engine
    which reads a long prompt looks hung.
    """

    def __init__(self, facts: Facts, *, workers: Workers, patience_s: float) -> None:
        """``facts`` are those of the machine, which are waited for at most ``patience_s``."""
        self._facts = facts
        self._workers = workers
        self._patience_s = patience_s
        self._machine = LateWork(facts.refresh, name="readings.machine")

    async def facts(self) -> NodeFacts:
        """See ``Facts``."""
        return replace(await self._facts.facts(), fetches=self._workers.fetches())

    async def refresh(self) -> HeartbeatFacts:
        """See ``Facts``; what the machine says too late is in the next one."""
        beat, work = await asyncio.gather(self._of_machine(), self._workers.work())
        return replace(beat, shard_work=work, fetches=self._workers.fetches())

    async def close(self) -> None:
        """End what still looks at the machine."""
        await self._machine.close()

    async def _of_machine(self) -> HeartbeatFacts:
        try:
            seen = await self._machine.result(wait_s=self._patience_s)
        except LlmgwError as error:
            _log.warning("machine_not_read", reason=error.message)
            return _NOTHING
        if seen is None:
            _log.debug("machine_read_late", after_s=self._patience_s)
        return seen or _NOTHING
