"""A fleet of simulated nodes in one process: they dial, run what they are told, and suffer mishaps.

``llmgw simulate agents`` makes one and shows how it stands.
"""

from __future__ import annotations

import asyncio
import functools
import random
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from llmgw.agent.session import SessionSettings
from llmgw.domain.nodes import NodeFacts
from llmgw.kit import logs, offloading
from llmgw.kit.clock import Clock, SystemClock
from llmgw.kit.tasks import Tasks
from llmgw.simulator import census, machines, mishaps, passports
from llmgw.simulator.census import Census
from llmgw.simulator.machines import Machine
from llmgw.simulator.mishaps import Kind, Mishap, Rates
from llmgw.simulator.sim_node import SimNode
from llmgw.simulator.sim_shards import Habits

CLOSE_S = 15.0
_ANSWER_S = 30.0
"""For an answer to a registration: a thousand nodes that ask at once wait for each other."""

_log = logs.get(__name__)

Event = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What is simulated; the same plan and seed make the same fleet and the same mishaps."""

    count: int
    servers: Sequence[str]
    machines: Sequence[Machine]
    prefix: str = "sim"
    seed: int = 0
    heartbeat_s: float = 5.0
    ramp_s: float = 0.0
    """Over how long the first dials are spread."""
    ca: Path | None = None
    """The folder of the authority that signs for the nodes; without one they speak plaintext."""
    habits: Habits = field(default_factory=Habits)
    rates: Rates = field(default_factory=Rates)


class SimFleet:
    """All nodes of one simulation; use as a context manager."""

    def __init__(
        self, plan: FleetPlan, *, on_event: Event = lambda _: None, clock: Clock | None = None
    ) -> None:
        """``on_event`` is told each mishap in a sentence."""
        self._plan = plan
        self._on_event = on_event
        self._clock = clock or SystemClock()
        self._nodes: tuple[SimNode, ...] = ()
        self._tasks = Tasks(owner="sim fleet")
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._begun_at = self._clock.monotonic()
        self._troubled: set[str] = set()
        self.mishaps = 0

    @property
    def age_s(self) -> float:
        """Seconds since the first node was let go."""
        return self._clock.monotonic() - self._begun_at

    async def __aenter__(self) -> Self:
        """Make every node and have the first ones dial."""
        try:
            self._nodes = await self._made()
        except BaseException:
            self._forget_keys()
            raise
        self._begun_at = self._clock.monotonic()
        self._tasks.spawn("dialling", self._dial_all())
        self._tasks.spawn("mishaps", self._suffer())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Have every node leave at once, within a bound."""
        await self._tasks.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await asyncio.gather(*(node.close() for node in self._nodes))
        except TimeoutError:
            _log.warning("nodes_do_not_end", within_s=CLOSE_S)
        finally:
            self._forget_keys()

    def census(self) -> Census:
        """How everybody stands now."""
        return census.take(self._nodes, after_s=self.age_s)

    async def _made(self) -> tuple[SimNode, ...]:
        plan = self._plan
        facts = [
            machines.node(
                plan.machines[i % len(plan.machines)],
                number=i + 1,
                prefix=plan.prefix,
                serves=plan.habits.serves,
            )
            for i in range(plan.count)
        ]
        papers = await self._papers([one.node_id for one in facts])
        return tuple(self._node(one, papers.get(one.node_id)) for one in facts)

    def _node(self, facts: NodeFacts, paper: passports.Passport | None) -> SimNode:
        plan = self._plan
        return SimNode(
            facts,
            session=SessionSettings(
                node_id=facts.node_id,
                servers=plan.servers,
                tls=paper,
                heartbeat_s=plan.heartbeat_s,
                answer_s=_ANSWER_S,
            ),
            habits=plan.habits,
            draw=random.Random(f"{plan.seed} {facts.node_id}"),  # noqa: S311 - nothing secret
        )

    async def _papers(self, node_ids: Sequence[str]) -> dict[str, passports.Passport]:
        if self._plan.ca is None:
            return {}
        self._folder = tempfile.TemporaryDirectory(prefix="llmgw-simulated-")
        out, clock = Path(self._folder.name), self._clock
        self._on_event(f"{len(node_ids)} certificates are signed by {self._plan.ca}")
        issue = functools.partial(passports.issue, directory=self._plan.ca, out=out, clock=clock)
        # Waited for also when this is cancelled: the folder must not go while a key is written.
        return {
            node_id: await offloading.to_the_end(functools.partial(issue, node_id))
            for node_id in node_ids
        }

    def _forget_keys(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    async def _dial_all(self) -> None:
        for place, node in enumerate(self._nodes):
            due_s = self._plan.ramp_s * place / len(self._nodes)
            await self._until(due_s)
            node.dial()

    async def _suffer(self) -> None:
        for mishap in mishaps.schedule(self._plan.rates, seed=self._plan.seed):
            await self._until(mishap.at_s)
            self._begin(mishap)

    def _begin(self, mishap: Mishap) -> None:
        """One more mishap, where somebody is there to suffer it."""
        present = [
            node
            for node in self._nodes
            if node.is_registered and node.node_id not in self._troubled
        ]
        if mishap.kind is Kind.CRASH:
            present = [node for node in present if node.shards.serving()]
        if not present:
            return
        self.mishaps += 1
        node = present[int(mishap.draw * len(present))]
        match mishap.kind:
            case Kind.LOSS:
                self._trouble(node, self._lose(node))
            case Kind.FLAP:
                self._trouble(node, self._flap(node))
            case Kind.CRASH:
                shard_id = node.shards.serving()[0]
                self._on_event(f"{node.node_id}: the engine of {shard_id} is killed")
                node.shards.crash(shard_id)

    def _trouble(self, node: SimNode, course: Coroutine[None, None, None]) -> None:
        """Let one mishap run its course; nobody suffers two at once."""
        self._troubled.add(node.node_id)
        task = self._tasks.spawn(f"mishap {node.node_id}", course)
        task.add_done_callback(lambda _: self._troubled.discard(node.node_id))

    async def _lose(self, node: SimNode) -> None:
        away_s = self._plan.rates.lost_for_s
        self._on_event(f"{node.node_id} loses power for {away_s:g} s")
        await node.lose_power()
        await asyncio.sleep(away_s)
        node.dial()
        self._on_event(f"{node.node_id} boots")

    async def _flap(self, node: SimNode) -> None:
        rates = self._plan.rates
        self._on_event(f"{node.node_id} flaps: {rates.flap_times} cuts of {rates.cut_s:g} s")
        for _ in range(rates.flap_times):
            await node.cut()
            await asyncio.sleep(rates.cut_s)
            node.dial()
            await asyncio.sleep(rates.cut_s)

    async def _until(self, after_s: float) -> None:
        await asyncio.sleep(max(0.0, after_s - self.age_s))
