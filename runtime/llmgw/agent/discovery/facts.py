"""What the agent tells the control plane about its node: everything once, then what changes.

The agent's session asks it; a part that hangs is left out, named in the log once, and asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import llmgw
from llmgw.agent.discovery import gpus
from llmgw.agent.discovery.address import Identity
from llmgw.agent.discovery.scan import Cards, EnginesHere, Files, Hardware, Scanner
from llmgw.config.settings import AgentSettings
from llmgw.domain.nodes import Gpu, HeartbeatFacts, LocalWeights, NodeFacts, Storage
from llmgw.errors import DeadlinePassed
from llmgw.kit import logs
from llmgw.kit.clock import Clock
from llmgw.kit.offloading import Lane

_T = TypeVar("_T")
_log = logs.get(__name__)

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
        self._cards_lane = Lane(name="reading the hardware")
        self._engines_lane = Lane(name="checking the engines")
        self._files = Files()  # last known, for a registration while a read hangs
        self._hardware = Hardware()
        self._engines = EnginesHere()
        self._gpus: tuple[Gpu, ...] = ()
        self._weights_due_at = 0.0
        self._said: frozenset[str] = frozenset()

    def gpus(self) -> tuple[Gpu, ...]:
        """The cards as they were read last; the orders for shards are checked against them."""
        return self._gpus

    async def facts(self) -> NodeFacts:
        """All that a registration carries, read now."""
        reading = _Reading(timeout_s=self._timeouts.registration_s)
        files = await reading.of(self._files_lane, self._scanner.files, otherwise=self._files)
        hardware = await reading.of(
            self._cards_lane, self._scanner.hardware, otherwise=self._hardware
        )
        self._files, self._hardware, self._gpus = files, hardware, hardware.cards.gpus
        self._engines = await reading.of(
            self._engines_lane, self._scanner.engines, otherwise=self._engines
        )
        self._say((*reading.failures, *hardware.failures, *_unusable(hardware)))
        return self._registration(files, hardware)

    async def refresh(self) -> HeartbeatFacts:
        """All that a heartbeat may carry, read now; the disks and the cards side by side."""
        reading = _Reading(timeout_s=self._timeouts.heartbeat_s)
        (space, weights), cards, self._engines = await asyncio.gather(
            self._files_again(reading),
            reading.of(self._cards_lane, self._scanner.cards, otherwise=Cards()),
            reading.of(self._engines_lane, self._scanner.engines, otherwise=self._engines),
        )
        problems = gpus.news(self._gpus, cards.gpus)
        self._gpus = cards.gpus or self._gpus
        self._say((*reading.failures, *cards.failures))
        return HeartbeatFacts(
            gpu_memory_used_mib={
                gpu.index: gpu.memory_used_mib
                for gpu in cards.gpus
                if gpu.memory_used_mib is not None
            },
            new_problems=problems,
            storage=space,
            memory_total_mb=self._scanner.memory_total_mb(),
            weights=weights,
            engine_versions=self._engines.versions,
            engine_installs=self._engines.installs,
        )

    def _registration(self, files: Files, hardware: Hardware) -> NodeFacts:
        who = self._identity
        return NodeFacts(
            node_id=who.node_id,
            hostname=who.hostname,
            mgmt_addr=who.mgmt_addr,
            agent_version=llmgw.__version__,
            labels=dict(self._settings.labels),
            gpus=hardware.cards.gpus,
            fabrics=tuple(check.fabric for check in hardware.fabrics if check.is_usable),
            host=hardware.host,
            memory_total_mb=hardware.memory_total_mb,
            storage=files.storage,
            weights=files.weights,
            engine_versions=self._engines.versions,
            engines_probed=True,
            engine_installs=self._engines.installs,
            port_range=self._settings.port_range,
        )

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

    def _say(self, failures: tuple[str, ...]) -> None:
        """Log what did not fail at the reading before."""
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


def _unusable(hardware: Hardware) -> tuple[str, ...]:
    """What is wrong with declared fabrics; one without a usable adapter is not offered."""
    return tuple(
        f"fabric {check.name}: {problem}"
        for check in hardware.fabrics
        for problem in check.problems
    )
