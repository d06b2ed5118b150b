"""Nodes without a process of their own: they obey orders and speak, all on one agenda.

Fits the reconciler's ``Dispatcher``. What nodes say goes through the same doors as the words of
real agents: registrations, the ends of streams, and reports of shards.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from llmgw.agent.supervisor import wording
from llmgw.domain import names
from llmgw.domain.nodes import HeartbeatFacts, NodeFacts
from llmgw.domain.replicas import RunningShard, ShardReport, ShardSpec, ShardState
from llmgw.errors import NotConnected
from llmgw.simulator.agenda import Agenda
from llmgw.simulator.sim_shards import Habits

_HEARD_S = 0.3
"""From an order to the first word of its node."""
_DRAINED_S = 0.8
_STOPPED_S = 1.5
_NOTICED_S = 10.0
"""Until a control plane sees that the stream of a node without power is gone."""
_KILLED = -9


class Ears(Protocol):
    """Who hears the nodes; ``control.reconciler.records.Records`` fits."""

    def register(self, facts: NodeFacts, running: tuple[RunningShard, ...]) -> tuple[str, ...]:
        """A node and what runs on it; the shard ids that it shall stop."""
        ...

    def heartbeat(self, node_id: str, beat: HeartbeatFacts) -> bool:
        """A node lives."""
        ...

    def shard_report(self, report: ShardReport) -> None:
        """A shard stands somewhere."""
        ...

    def stream_lost(self, node_id: str) -> None:
        """A node cannot be told anything."""
        ...


@dataclass(slots=True)
class _Engine:
    spec: ShardSpec
    state: ShardState = ShardState.PENDING
    is_drained: bool = False
    is_ending: bool = False


@dataclass(slots=True)
class _Node:
    facts: NodeFacts
    has_power: bool = True
    is_heard: bool = False
    """Its network is there and it has registered."""
    has_stream: bool = False
    """What the control plane believes."""
    absence: int = 0
    """Rises whenever it goes silent, so that what was to follow the last time does not."""
    engines: dict[str, _Engine] = field(default_factory=dict)


class VirtualNodes:
    """All nodes of one trial."""

    def __init__(
        self, everybody: Sequence[NodeFacts], *, agenda: Agenda, habits: Habits, seed: int
    ) -> None:
        """Nobody has registered yet; ``habits`` says how long loads take."""
        self._nodes = {facts.node_id: _Node(facts) for facts in everybody}
        self._cards = sum(len(facts.gpus) for facts in everybody)
        self._agenda = agenda
        self._habits = habits
        self._draw = random.Random(f"{seed} loads")  # noqa: S311 - nothing secret is drawn
        self._ears: Ears | None = None
        self.silent: set[str] = set(self._nodes)
        """The nodes that do not beat."""
        self.returned: set[str] = set()
        """Those that have begun to since somebody emptied this."""
        self.doubly_held = 0
        """Starts on a card whose last engine had not ended."""

    def join(self, ears: Ears, *, running: Mapping[str, Sequence[ShardSpec]]) -> None:
        """Every node registers for the first time, with what serves there already."""
        self._ears = ears
        for node_id, node in self._nodes.items():
            for spec in running.get(node_id, ()):
                node.engines[spec.shard_id] = _Engine(spec, state=ShardState.READY)
            self._come_back(node_id)

    @property
    def cards_there(self) -> int:
        """The cards of all nodes that speak."""
        away = sum(len(self._nodes[node_id].facts.gpus) for node_id in self.silent)
        return self._cards - away

    @property
    def ids(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self._nodes)

    def serving(self) -> Sequence[tuple[str, str]]:
        """Every engine that serves, as node and shard."""
        return [
            (node_id, shard_id)
            for node_id, node in self._nodes.items()
            for shard_id, engine in node.engines.items()
            if engine.state is ShardState.READY
        ]

    # What they are told; this fits ``Dispatcher``

    def start(self, node_id: str, spec: ShardSpec) -> None:
        """Start a shard; one that runs only reports where it stands."""
        node = self._reached(node_id)
        if node is None:
            return
        held = node.engines.get(spec.shard_id)
        if held is not None:
            self._say(node_id, spec.shard_id, held.state)
            return
        self._note_doubles(node, spec)
        node.engines[spec.shard_id] = engine = _Engine(spec)
        load_s = self._habits.draw_load_s(self._draw)
        self._agenda.after(_HEARD_S, lambda: self._becomes(node_id, engine, ShardState.LOADING))
        self._agenda.after(
            _HEARD_S + load_s, lambda: self._becomes(node_id, engine, ShardState.READY)
        )

    def stop(self, node_id: str, shard_id: str) -> None:
        """End a shard soon; an unknown one is reported as stopped."""
        node = self._reached(node_id)
        if node is not None:
            self._end_soon(node_id, shard_id)

    def drain(self, node_id: str, shard_id: str) -> None:
        """Take no new work on a shard, and soon have none."""
        node = self._reached(node_id)
        engine = None if node is None else node.engines.get(shard_id)
        if engine is None:
            return
        engine.state = ShardState.DRAINING
        self._say(node_id, shard_id, ShardState.DRAINING)
        self._agenda.after(_DRAINED_S, lambda: self._has_drained(node_id, engine))

    # What befalls them

    def lose_power(self, node_id: str, *, for_s: float) -> None:
        """End all its engines without a word; it boots after a while."""
        node = self._nodes[node_id]
        if not node.is_heard:
            return
        node.has_power = False
        node.engines.clear()
        absence = self._fall_silent(node_id)
        self._agenda.after(_NOTICED_S, lambda: self._notice(node_id, absence))
        self._agenda.after(for_s, lambda: self._come_back(node_id))

    def cut(self, node_id: str, *, for_s: float) -> None:
        """Take its network away for a while; engines go on."""
        if not self._nodes[node_id].is_heard:
            return
        self._notice(node_id, self._fall_silent(node_id))
        self._agenda.after(for_s, lambda: self._come_back(node_id))

    def crash(self, node_id: str, shard_id: str) -> None:
        """Kill an engine."""
        if self._nodes[node_id].engines.pop(shard_id, None) is not None:
            self._say(
                node_id,
                shard_id,
                ShardState.FAILED,
                error=wording.exit_sentence("the engine", _KILLED),
                exit_code=_KILLED,
            )

    def _reached(self, node_id: str) -> _Node | None:
        """The node of an order; nothing when the order is lost on its way."""
        node = self._nodes[node_id]
        if not node.has_stream:
            raise NotConnected(f"node {node_id} has no stream")
        return node if node.is_heard else None

    def _note_doubles(self, node: _Node, spec: ShardSpec) -> None:
        wanted = {*spec.gpu_indices}
        self.doubly_held += any(
            wanted.intersection(engine.spec.gpu_indices) for engine in node.engines.values()
        )

    def _fall_silent(self, node_id: str) -> int:
        node = self._nodes[node_id]
        self._heard.heartbeat(node_id, HeartbeatFacts())
        node.is_heard = False
        node.absence += 1
        self.silent.add(node_id)
        return node.absence

    def _notice(self, node_id: str, absence: int) -> None:
        node = self._nodes[node_id]
        if node.absence == absence and not node.is_heard:
            node.has_stream = False
            self._heard.stream_lost(node_id)

    def _come_back(self, node_id: str) -> None:
        node = self._nodes[node_id]
        node.has_power = node.is_heard = node.has_stream = True
        self.silent.discard(node_id)
        self.returned.add(node_id)
        running = tuple(wording.running(one.spec, one.state) for one in node.engines.values())
        for shard_id in self._heard.register(node.facts, running):
            self._end_soon(node_id, shard_id)

    def _becomes(self, node_id: str, engine: _Engine, state: ShardState) -> None:
        """The next step of a load, unless it has ended or is to end."""
        shard_id = engine.spec.shard_id
        is_loading = engine.state in {ShardState.PENDING, ShardState.LOADING}
        if self._nodes[node_id].engines.get(shard_id) is engine and is_loading:
            engine.state = state
            self._say(node_id, shard_id, state)

    def _has_drained(self, node_id: str, engine: _Engine) -> None:
        shard_id = engine.spec.shard_id
        if self._nodes[node_id].engines.get(shard_id) is engine and not engine.is_drained:
            engine.is_drained = True
            self._say(node_id, shard_id, ShardState.DRAINING, is_drained=True)

    def _end_soon(self, node_id: str, shard_id: str) -> None:
        engine = self._nodes[node_id].engines.get(shard_id)
        if engine is not None and engine.is_ending:
            return
        if engine is not None:
            engine.is_ending = True
        self._agenda.after(_STOPPED_S, lambda: self._has_ended(node_id, shard_id))

    def _has_ended(self, node_id: str, shard_id: str) -> None:
        self._nodes[node_id].engines.pop(shard_id, None)
        self._say(node_id, shard_id, ShardState.STOPPED)

    def _say(
        self,
        node_id: str,
        shard_id: str,
        state: ShardState,
        *,
        error: str = "",
        exit_code: int | None = None,
        is_drained: bool = False,
    ) -> None:
        """Report a shard; who has no network says it all when it registers again."""
        if self._nodes[node_id].is_heard:
            self._heard.shard_report(
                ShardReport(
                    node_id=node_id,
                    replica_id=names.replica_of(shard_id),
                    shard_id=shard_id,
                    state=state,
                    error=error,
                    exit_code=exit_code,
                    is_drained=is_drained,
                )
            )

    @property
    def _heard(self) -> Ears:
        if self._ears is None:
            raise RuntimeError("the nodes have joined nobody yet")
        return self._ears
