"""What the agent tells the control plane about its node: everything once, then what changes.

The agent's session asks it; a part that hangs is left out, named in the log once, and asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import llmgw
from llmgw.agent.discovery import gpus
from llmgw.agent.discovery.address import Identity
from llmgw.agent.discovery.card_looks import CardLooks
from llmgw.agent.discovery.card_watch import CardWatch
from llmgw.agent.discovery.findings import (
    EnginesHere,
    Files,
    Hardware,
    Surroundings,
)
from llmgw.agent.discovery.scan import Scanner
from llmgw.config.settings import AgentSettings
from llmgw.domain.nodes import Gpu, HeartbeatFacts, LocalWeights, NodeFacts, Storage
from llmgw.errors import DeadlinePassed
from llmgw.kit import logs
from llmgw.kit.clock import Clock
from llmgw.kit.offloading import Lane

_T = TypeVar("_T")
_log = logs.get(__name__)

_CARDS_FRESH_S = 10.0
"""Younger figures of cards are not read again for whoever asks between two heartbeats."""

_AROUND_EVERY_S = 60.0
"""Adapters and the processor change when somebody works on the machine, not from beat to beat."""

_WEIGHTS_SHARE = 0.05
"""The most of the time that may be spent on walking through model folders."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long one read may take before the message goes without it."""

    registration_s: float = 30.0
    heartbeat_s: float = 5.0


class Discovery:
    """The facts of one node; fits the session's port ``Facts``."""

    def __init__(
        self,
        *,
        settings: AgentSettings,
        identity: Identity,
        scanner: Scanner,
        clock: Clock,
        timeouts: Timeouts = Timeouts(),
    ) -> None:
        """``scanner`` reads the machine; ``identity`` is what the node calls itself."""
        self._timeouts = timeouts
        self._settings = settings
        self._identity = identity
        self._scanner = scanner
        self._clock = clock
        self._files_lane = Lane(name="reading the model folders")
        self._around_lane = Lane(name="reading the adapters")
        self._engines_lane = Lane(name="checking the engines")
        self._files = Files()  # last known, for a registration while a read hangs
        self._around = Surroundings()
        self._engines = EnginesHere()
        self._watch = CardWatch()
        self._looks = CardLooks(scanner.cards, clock=clock)
        self._around_due_at = 0.0
        self._weights_due_at = 0.0
        self._said: frozenset[str] = frozenset()

    def gpus(self) -> tuple[Gpu, ...]:
        """The cards as they were read last; the orders for shards are checked against them."""
        return self._watch.gpus

    async def gpu_utilization(self) -> Mapping[int, int]:
        """Percent by card, read now or a moment ago; a card that cannot be read is left out.

        Whether an engine hangs is asked without a control plane too, so nobody may beat meanwhile.
        """
        if self._is_old(self._looks.ended_at):
            # Whoever asks tells of work at every heartbeat, with or without what the cards do.
            await self._looks.now(wait_s=self._settings.heartbeat_interval / 4)
        if self._is_old(self._looks.ended_at):
            return {}
        return {
            gpu.index: gpu.utilization_percent
            for gpu in self._looks.last.gpus
            if gpu.utilization_percent is not None
        }

    async def facts(self) -> NodeFacts:
        """All that a registration carries, read now."""
        reading = _Reading(timeout_s=self._timeouts.registration_s)
        files = await reading.of(self._files_lane, self._scanner.files, otherwise=self._files)
        await self._look_around(reading)
        cards = await self._looks.now(wait_s=self._timeouts.registration_s)
        if cards is not None:
            self._watch.take(cards)
        self._files = files
        self._engines = await reading.of(
            self._engines_lane, self._scanner.engines, otherwise=self._engines
        )
        self._say(reading)
        return self._registration(files)

    async def refresh(self) -> HeartbeatFacts:
        """All that a heartbeat may carry, read now; the disks and the cards side by side."""
        reading = _Reading(timeout_s=self._timeouts.heartbeat_s)
        (space, weights), cards, self._engines, _ = await asyncio.gather(
            self._files_again(reading),
            self._looks.now(wait_s=self._timeouts.heartbeat_s),
            reading.of(self._engines_lane, self._scanner.engines, otherwise=self._engines),
            self._look_around_again(reading),
        )
        before, told = self._watch.gpus, None if cards is None else self._watch.take(cards)
        seen = () if cards is None else cards.gpus
        self._say(reading)
        return HeartbeatFacts(
            gpu_memory_used_mib={
                gpu.index: gpu.memory_used_mib for gpu in seen if gpu.memory_used_mib is not None
            },
            gpu_gauges={gpu.index: gpus.gauges(gpu) for gpu in seen},
            gpus=told,
            fabrics=self._around.offered,
            fabric_problems=self._around.fabric_problems,
            warnings=self._warnings(),
            new_problems=gpus.news(before, self._watch.gpus),
            storage=space,
            memory_total_mb=self._scanner.memory_total_mb(),
            weights=weights,
            engine_versions=self._engines.versions,
            engine_installs=self._engines.installs,
        )

    def _registration(self, files: Files) -> NodeFacts:
        who = self._identity
        return NodeFacts(
            node_id=who.node_id,
            hostname=who.hostname,
            mgmt_addr=who.mgmt_addr,
            agent_version=llmgw.__version__,
            labels=dict(self._settings.labels),
            gpus=self._watch.gpus,
            fabrics=self._around.offered,
            fabric_problems=self._around.fabric_problems,
            warnings=self._warnings(),
            host=self._around.host,
            memory_total_mb=self._scanner.memory_total_mb(),
            storage=files.storage,
            weights=files.weights,
            engine_versions=self._engines.versions,
            engines_probed=True,
            engine_installs=self._engines.installs,
            port_range=self._settings.port_range,
            launch_modes={"vllm": self._settings.engines.vllm.launch_mode},
        )

    def _is_old(self, ended_at: float) -> bool:
        """Old figures would look like work."""
        return self._clock.monotonic() - ended_at > _CARDS_FRESH_S

    def _warnings(self) -> tuple[str, ...]:
        """What a person should know: what could not be read, then what is odd."""
        seen = Hardware(cards=self._looks.last, around=self._around)
        return (*map(_unread, seen.failures), *seen.warnings)

    async def _look_around_again(self, reading: _Reading) -> None:
        if self._clock.monotonic() >= self._around_due_at:
            await self._look_around(reading)

    async def _look_around(self, reading: _Reading) -> None:
        self._around = await reading.of(
            self._around_lane, self._scanner.around, otherwise=self._around
        )
        self._around_due_at = self._clock.monotonic() + _AROUND_EVERY_S

    async def _files_again(
        self, reading: _Reading
    ) -> tuple[tuple[Storage, ...], tuple[LocalWeights, ...] | None]:
        """Space, and weights when a walk through the folders is due; absent when it is not."""
        started = self._clock.monotonic()
        if started < self._weights_due_at:
            nothing: tuple[Storage, ...] = ()
            space = await reading.of(self._files_lane, self._scanner.space, otherwise=nothing)
            return space, None
        files = await reading.of(self._files_lane, self._scanner.files, otherwise=None)
        ended = self._clock.monotonic()
        self._weights_due_at = ended + (ended - started) / _WEIGHTS_SHARE
        return ((), None) if files is None else (files.storage, files.weights)

    def _say(self, reading: _Reading) -> None:
        """Log what did not fail at the reading before."""
        seen = Hardware(cards=self._looks.last, around=self._around)
        failures = (*reading.failures, *seen.failures, *self._around.fabric_problems)
        for failure in failures:
            if failure not in self._said:
                _log.warning("discovery_failed", reason=failure)
        self._said = frozenset(failures)


class _Reading:
    """One round of bounded reads, with what failed in it."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self.failures: list[str] = []

    async def of(self, lane: Lane, work: Callable[[], _T], *, otherwise: _T) -> _T:
        try:
            return await lane.run(work, timeout_s=self._timeout_s)
        except DeadlinePassed as error:
            self.failures.append(error.message)
            return otherwise


def _unread(failure: str) -> str:
    return f"could not be read: {failure}"
