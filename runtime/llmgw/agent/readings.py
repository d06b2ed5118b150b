"""Joins what the machine says with what its engines do, into one reading for each heartbeat.

``serve`` makes one of discovery and orders; fits the session's ``Facts``.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Protocol

from llmgw.agent.node_ports import Facts
from llmgw.domain.nodes import HeartbeatFacts, NodeFacts
from llmgw.domain.work import ShardWork


class Workers(Protocol):
    """Says what the shards of this node have done."""

    async def work(self) -> tuple[ShardWork, ...]:
        """Of each live shard what it has used so far."""
        ...


class Readings:
    """The facts of a node, its shards' work among them."""

    def __init__(self, facts: Facts, *, workers: Workers) -> None:
        """``facts`` are those of the machine."""
        self._facts = facts
        self._workers = workers

    async def facts(self) -> NodeFacts:
        """See ``Facts``."""
        return await self._facts.facts()

    async def refresh(self) -> HeartbeatFacts:
        """See ``Facts``; both are read at once."""
        beat, work = await asyncio.gather(self._facts.refresh(), self._workers.work())
        return replace(beat, shard_work=work)
