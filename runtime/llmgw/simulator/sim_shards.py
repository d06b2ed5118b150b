"""The shards of one simulated node: they load for a drawn time, serve, drain, stop and crash.

Fits the agent session's ``ShardOrders``. Reports go where a real agent's would; a shard that has
ended is forgotten, because its last report was handed on.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from llmgw.agent.supervisor import wording
from llmgw.domain import replicas as rules
from llmgw.domain.nodes import NodeFacts
from llmgw.domain.replicas import PORT_IN_USE, RunningShard, ShardReport, ShardSpec, ShardState
from llmgw.errors import AlreadyHeld, LlmgwError, Unknown
from llmgw.kit import logs
from llmgw.kit.tasks import Tasks
from llmgw.simulator.behaviour import Behaviour
from llmgw.simulator.tiny_endpoint import TinyEndpoint

AGENT_LOG = "agent"
_SPREAD = 0.4
"""Sigma of the logarithm of load times: most within a third and three times the median."""
_SLOWER = 10.0
_IDLE_LOOK_S = 0.2
_KEPT_LINES = 32

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Habits:
    """How simulated engines behave."""

    load_s: float = 5.0
    """The median of the time from a start to serving."""
    slow_share: float = 0.0
    """Share of loads, 0 to 1, that take ten times as long."""
    serves: bool = True
    """Whether there is an endpoint, or only the word that there is one."""
    behaviour: Behaviour = field(default_factory=Behaviour)

    def draw_load_s(self, draw: random.Random) -> float:
        """How long one load takes."""
        drawn_s = self.load_s * draw.lognormvariate(0.0, _SPREAD)
        return drawn_s * (_SLOWER if draw.random() < self.slow_share else 1.0)


class _Shard:
    """One start of a shard."""

    __slots__ = ("endpoint", "latest", "load", "spec", "state")

    def __init__(self, spec: ShardSpec, *, node_id: str) -> None:
        self.spec = spec
        self.state = ShardState.PENDING
        self.endpoint: TinyEndpoint | None = None
        self.load: asyncio.Task[None] | None = None
        self.latest = ShardReport(
            node_id=node_id,
            replica_id=spec.replica_id,
            shard_id=spec.shard_id,
            state=ShardState.PENDING,
        )


class SimShards:
    """All shards of one node."""

    def __init__(
        self,
        facts: NodeFacts,
        *,
        habits: Habits,
        draw: random.Random,
        on_report: Callable[[ShardReport], None],
    ) -> None:
        """``draw`` gives the load times."""
        self._facts = facts
        self._habits = habits
        self._draw = draw
        self._on_report = on_report
        self._shards: dict[str, _Shard] = {}
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._tasks = Tasks(owner=f"sim {facts.node_id}")

    # Orders; this fits the session's ``ShardOrders``

    def running(self) -> tuple[RunningShard, ...]:
        """Every shard that has not ended."""
        return tuple(wording.running(one.spec, one.state) for one in self._shards.values())

    def start(self, spec: ShardSpec) -> None:
        """Start a shard; one that runs only reports where it stands."""
        held = self._shards.get(spec.shard_id)
        if held is not None:
            self._on_report(held.latest)
            return
        shard = _Shard(spec, node_id=self._facts.node_id)
        self._shards[spec.shard_id] = shard
        self._on_report(shard.latest)
        missing = {*spec.gpu_indices} - {gpu.index for gpu in self._facts.gpus}
        if missing:
            self._end(shard, error=f"this node has no GPU {', '.join(map(str, sorted(missing)))}")
            return
        shard.load = self._tasks.spawn(f"load {spec.shard_id}", self._load(shard))

    def stop(self, shard_id: str) -> None:
        """Stop a shard at once; an unknown one is reported as stopped."""
        shard = self._shards.get(shard_id)
        if shard is None:
            self._tell_absent(shard_id)
        else:
            self._end(shard)

    def drain(self, shard_id: str) -> None:
        """Take no new work on a shard, and say when it has none left; else say where it stands."""
        shard = self._shards.get(shard_id)
        if shard is None:
            self._tell_absent(shard_id)
        elif shard.state.is_live and shard.state is not ShardState.DRAINING:
            self._move(shard, ShardState.DRAINING)
            self._tasks.spawn(f"drain {shard_id}", self._tell_drained(shard))
        else:
            self._on_report(shard.latest)

    def log_sources(self) -> tuple[str, ...]:
        """The agent, and every shard that has not ended."""
        return (AGENT_LOG, *self._shards)

    def log_tail(self, source: str, lines: int) -> tuple[str, ...]:
        """What was noted of the node, or of one shard."""
        if source not in self.log_sources():
            raise Unknown(f"there is no log {source!r} on {self._facts.node_id}")
        noted = [line for line in self._lines if source in {AGENT_LOG, line.partition(" ")[0]}]
        return tuple(noted[-lines:])

    # What the fleet asks and does

    def count(self, state: ShardState) -> int:
        """How many shards are in a state."""
        return sum(one.state is state for one in self._shards.values())

    def cards_in_use(self) -> frozenset[int]:
        """Cards that hold a model."""
        busy = (one for one in self._shards.values() if one.state.is_live)
        return frozenset(index for one in busy for index in one.spec.gpu_indices)

    def busy_cards(self) -> frozenset[int]:
        """Cards whose engine has a request now."""
        busy = (one for one in self._shards.values() if one.endpoint and not one.endpoint.is_idle)
        return frozenset(index for one in busy for index in one.spec.gpu_indices)

    def serving(self) -> tuple[str, ...]:
        """The ids of shards that are ready, in the order of their starts."""
        return tuple(i for i, one in self._shards.items() if one.state is ShardState.READY)

    def crash(self, shard_id: str) -> None:
        """Kill an engine."""
        shard = self._shards.get(shard_id)
        if shard is not None:
            code = -signal.SIGKILL
            self._end(shard, error=wording.exit_sentence("sim-engine", code), exit_code=code)

    def lose_power(self) -> None:
        """End everything without a word."""
        for shard in self._shards.values():
            _let_go(shard)
        self._shards.clear()

    async def close(self) -> None:
        """End everything: the simulation is over."""
        self.lose_power()
        await self._tasks.close()

    async def _load(self, shard: _Shard) -> None:
        try:
            if self._habits.serves and shard.spec.rank == 0:
                await self._open(shard)
        except AlreadyHeld as error:
            self._end(shard, error=f"{PORT_IN_USE}: {error.message}")
            return
        except LlmgwError as error:
            self._end(shard, error=error.message)
            return
        self._move(shard, ShardState.STARTING)
        self._move(shard, ShardState.LOADING)
        await asyncio.sleep(self._habits.draw_load_s(self._draw))
        if shard.endpoint is not None:
            shard.endpoint.become_ready()
        if shard.state is ShardState.LOADING:
            self._move(shard, ShardState.READY)

    async def _open(self, shard: _Shard) -> None:
        endpoint = TinyEndpoint(
            shard.spec, host=self._facts.mgmt_addr, behaviour=self._habits.behaviour
        )
        shard.endpoint = endpoint
        await endpoint.open()

    async def _tell_drained(self, shard: _Shard) -> None:
        while shard.endpoint is not None and not shard.endpoint.is_idle:  # noqa: ASYNC110 - slots tell nobody
            await asyncio.sleep(_IDLE_LOOK_S)
        if shard.state is ShardState.DRAINING:
            self._tell(shard, ShardState.DRAINING, is_drained=True)

    def _tell_absent(self, shard_id: str) -> None:
        self._on_report(
            ShardReport(
                node_id=self._facts.node_id,
                replica_id="",
                shard_id=shard_id,
                state=ShardState.STOPPED,
            )
        )

    def _move(self, shard: _Shard, to: ShardState) -> None:
        shard.state = rules.step(shard=shard.spec.shard_id, now=shard.state, to=to)
        self._tell(shard, to)

    def _end(self, shard: _Shard, *, error: str = "", exit_code: int | None = None) -> None:
        to = ShardState.FAILED if error else ShardState.STOPPED
        _let_go(shard)
        del self._shards[shard.spec.shard_id]
        shard.state = rules.step(shard=shard.spec.shard_id, now=shard.state, to=to)
        self._tell(shard, to, error=error, exit_code=exit_code)

    def _tell(
        self,
        shard: _Shard,
        state: ShardState,
        *,
        error: str = "",
        exit_code: int | None = None,
        is_drained: bool = False,
    ) -> None:
        spec = shard.spec
        line = f"{spec.shard_id} is {state}" + (f": {error}" if error else "")
        self._lines.append(line)
        shard.latest = ShardReport(
            node_id=self._facts.node_id,
            replica_id=spec.replica_id,
            shard_id=spec.shard_id,
            state=state,
            error=error,
            exit_code=exit_code,
            last_output=(line,) if error else (),
            is_drained=is_drained,
        )
        self._on_report(shard.latest)


def _let_go(shard: _Shard) -> None:
    if shard.load is not None:
        shard.load.cancel()
    if shard.endpoint is not None:
        shard.endpoint.close()
        shard.endpoint = None
