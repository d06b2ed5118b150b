"""One simulated node: the real agent session over facts and shards that are made up.

A fleet makes as many as it is told to. Nothing here knows of other nodes.
"""

from __future__ import annotations

import asyncio
import enum
import random
from dataclasses import replace

from llmgw.agent.session import Session, SessionSettings
from llmgw.domain.nodes import Gpu, GpuGauges, HeartbeatFacts, NodeFacts
from llmgw.domain.replicas import ShardReport, ShardState
from llmgw.kit.tasks import Tasks
from llmgw.simulator.sim_shards import Habits, SimShards

_LOADED_SHARE = 0.9
"""How much of a card's memory an engine takes."""
_BUSY_PERCENT = 80
_COMING_UP = (ShardState.PENDING, ShardState.STARTING, ShardState.LOADING)


class Mood(enum.StrEnum):
    """How a node stands, in one word."""

    OUTSIDE = "outside"
    """It has not begun to dial."""
    DIALLING = "dialling"
    IDLE = "idle"
    LOADING = "loading"
    SERVING = "serving"
    CUT = "cut"
    """Its stream was cut, and its engines go on."""
    LOST = "lost"
    """It has no power."""


class SimNode:
    """A node from its first dial to the end of the simulation."""

    def __init__(
        self, facts: NodeFacts, *, session: SessionSettings, habits: Habits, draw: random.Random
    ) -> None:
        """``SettingsInvalid`` when the control plane cannot be dialled as ``session`` says."""
        self.node_id = facts.node_id
        self.beats = 0
        self._facts = facts
        self._settings = session
        self._tasks = Tasks(owner=f"sim {facts.node_id}")
        self._shards = SimShards(facts, habits=habits, draw=draw, on_report=self._report)
        self._session = self._fresh_session()
        self._talk: asyncio.Task[None] | None = None
        self._absence: Mood | None = Mood.OUTSIDE
        self._earlier_sessions = 0

    @property
    def shards(self) -> SimShards:
        """What runs on it."""
        return self._shards

    @property
    def is_registered(self) -> bool:
        """A control plane has it on an open stream."""
        return self._talk is not None and self._session.status.is_registered

    @property
    def has_registered(self) -> bool:
        """A control plane has had it at some time."""
        return self._earlier_sessions + self._session.status.sessions > 0

    @property
    def refusal(self) -> str:
        """Why its last session ended or did not begin."""
        return self._session.status.refusal

    @property
    def mood(self) -> Mood:
        """How it stands now."""
        if self._absence is not None:
            return self._absence
        if not self.is_registered:
            return Mood.DIALLING
        if any(self._shards.count(state) for state in _COMING_UP):
            return Mood.LOADING
        return Mood.SERVING if self._shards.serving() else Mood.IDLE

    def dial(self) -> None:
        """Open the stream, and again whenever it ends."""
        if self._talk is None:
            self._absence = None
            self._talk = self._tasks.spawn("session", self._session.run())

    async def cut(self) -> None:
        """Take the network away; engines go on, and ``dial`` brings it back."""
        await self._hang_up(Mood.CUT)

    async def lose_power(self) -> None:
        """End everything without a word; ``dial`` is its next boot."""
        self._shards.lose_power()
        await self._hang_up(Mood.LOST)
        self._earlier_sessions += self._session.status.sessions
        self._session = self._fresh_session()

    async def close(self) -> None:
        """The simulation is over."""
        await self._tasks.close()
        await self._shards.close()

    # What the session asks; this fits its ``Facts``

    async def facts(self) -> NodeFacts:
        """All that a registration carries."""
        return replace(self._facts, gpus=self._cards())

    async def refresh(self) -> HeartbeatFacts:
        """What a heartbeat carries: the same reading as a real agent's."""
        self.beats += 1
        facts, cards = self._facts, self._cards()
        return HeartbeatFacts(
            gpu_memory_used_mib={
                card.index: card.memory_used_mib
                for card in cards
                if card.memory_used_mib is not None
            },
            gpu_gauges={
                card.index: GpuGauges(card.utilization_percent, card.temperature_c)
                for card in cards
            },
            storage=facts.storage,
            memory_total_mb=facts.memory_total_mb,
            weights=facts.weights,
            engine_versions=facts.engine_versions,
            engine_installs=facts.engine_installs,
        )

    def _report(self, report: ShardReport) -> None:
        self._session.report(report)

    def _cards(self) -> tuple[Gpu, ...]:
        """The cards with what their engines make of them."""
        held, busy = self._shards.cards_in_use(), self._shards.busy_cards()
        if not held:
            return self._facts.gpus
        return tuple(
            _loaded(gpu, is_busy=gpu.index in busy) if gpu.index in held else gpu
            for gpu in self._facts.gpus
        )

    def _fresh_session(self) -> Session:
        return Session(self._settings, facts=self, orders=self._shards)

    async def _hang_up(self, absence: Mood) -> None:
        self._absence = absence
        talk, self._talk = self._talk, None
        if talk is not None:
            talk.cancel()
            await asyncio.wait({talk})


def _loaded(gpu: Gpu, *, is_busy: bool) -> Gpu:
    """A card that an engine holds; what its machine does not tell stays untold."""
    total_mib, percent = gpu.memory_total_mib, gpu.utilization_percent
    return replace(
        gpu,
        memory_used_mib=None if total_mib is None else int(total_mib * _LOADED_SHARE),
        utilization_percent=None if percent is None else _BUSY_PERCENT * is_busy,
    )
