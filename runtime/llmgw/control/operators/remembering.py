"""Recalls what operators have said before a lead begins, and keeps what changes in its course.

What it keeps by itself is what a next leader cannot know: which nodes were there, and how far rolls
have come. A store that does not answer has it later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from llmgw.control.operators.kept_words import Fleet, Shelves, Words
from llmgw.domain.nodes import Liveness, Node, NodeFacts, NodeTarget
from llmgw.domain.snapshots import Roll
from llmgw.domain.stored import NodeFlag, StoredNode, StoredRoll
from llmgw.errors import Invalid, LlmgwError
from llmgw.kit import logs, trees
from llmgw.kit.clock import Clock

EVERY_S = 2.0
SEEN_EVERY_S = 60.0
"""So often a node that is there is written down again."""
PRESENT_WITHIN_S = 5 * SEEN_EVERY_S
"""A node that was seen so long before the last one was still there then."""
FORGOTTEN_AFTER_S = 30 * 86400.0
_PRUNED_EVERY_S = 3600.0

_log = logs.get(__name__)


class Memory:
    """The words of one control plane."""

    def __init__(self, fleet: Fleet, *, shelves: Shelves | None, clock: Clock) -> None:
        """Nothing is read yet; without ``shelves`` nothing ever is."""
        self._fleet = fleet
        self._shelves = shelves
        self._clock = clock
        self._is_leading = False
        self._doubts = False
        self._rolls: dict[str, str] = {}
        """Why each stored roll has halted, by model."""
        self._written_at: dict[str, float] = {}
        self._pruned_at = float("-inf")
        self._complaint = ""
        self._woken = asyncio.Event()
        self.turn = asyncio.Lock()
        """Who reads or writes words; whoever hears them takes it too."""

    async def load(self) -> None:
        """Read all words and have the fleet know them; what the store raises."""
        if self._shelves is None:
            return
        async with self.turn:
            await self._load(self._shelves)

    async def _load(self, shelves: Shelves) -> None:
        nodes, rolls = await shelves.nodes.all(), await shelves.rolls.all()
        words = recalled(nodes, rolls, wall=self._clock.wall(), now=self._clock.monotonic())
        self._doubts = False
        self._rolls = {model: roll.halted for model, roll in words.rolls.items()}
        self._written_at = {}
        self._fleet.recall(
            flags=words.flags,
            rolls=words.rolls,
            known=words.known,
            banned=words.banned,
            present=words.present,
        )
        _log.info(
            "words_recalled",
            flagged=len(words.flags),
            rolls=len(words.rolls),
            banned=len(words.banned) or None,
            awaited=len(words.present),
        )

    def doubt(self) -> None:
        """Something may be stored that has not taken effect: what is stored holds."""
        self._doubts = True
        self._woken.set()

    def note_roll(self, roll: StoredRoll) -> None:
        """This one is stored from now on, to be followed to its end."""
        self._rolls[roll.model] = roll.halted

    def lead(self, *, is_leading: bool) -> None:
        """Only a leader keeps anything."""
        self._is_leading = is_leading
        self._woken.set()

    async def run(self) -> None:
        """Keep what changes, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._woken.wait()
            self._woken.clear()
            await self._guarded_look()

    async def _guarded_look(self) -> None:
        try:
            await self.look()
        except LlmgwError as error:
            if error.message != self._complaint:
                _log.warning("words_not_kept", reason=error.message)
            self._complaint = error.message
        except Exception as fault:  # noqa: BLE001 - the next turn must come all the same
            _log.error("keeping_failed", error=repr(fault), exc=fault)
        else:
            self._complaint = ""

    async def look(self) -> None:
        """Keep what has changed since the last look; what the store raises."""
        if not self._is_leading:
            return
        self._fleet.forget_silent(for_s=FORGOTTEN_AFTER_S)
        if self._shelves is None:
            return
        async with self.turn:
            if self._doubts:
                await self._load(self._shelves)
            await self._keep_rolls(self._shelves)
            await self._keep_presence(self._shelves)

    async def _keep_rolls(self, shelves: Shelves) -> None:
        """What became of rolls that are stored; a new one is stored by who hears of it."""
        now = self._fleet.rolls_now()
        owner = shelves.owner
        for model, halted in tuple(self._rolls.items()):
            if model not in now:
                await shelves.rolls.end(model, owner=owner)
                del self._rolls[model]
            elif now[model].halted != halted:
                await shelves.rolls.halt(model, reason=now[model].halted, owner=owner)
                self._rolls[model] = now[model].halted

    async def _keep_presence(self, shelves: Shelves) -> None:
        now = self._clock.monotonic()
        there = {
            node_id: node
            for node_id, node in self._fleet.nodes_now().items()
            if node.liveness is not Liveness.LOST
        }
        self._written_at = {k: at for k, at in self._written_at.items() if k in there}
        due = _due(there, self._written_at, now=now)
        if due:
            told = {node_id: _told(there[node_id]) for node_id in due}
            await shelves.nodes.seen(told, at=self._clock.wall())
            self._written_at.update(dict.fromkeys(due, now))
        if now - self._pruned_at >= _PRUNED_EVERY_S:
            self._pruned_at = now
            await shelves.nodes.prune(before=self._clock.wall() - FORGOTTEN_AFTER_S)


def recalled(
    nodes: Sequence[StoredNode], rolls: Sequence[StoredRoll], *, wall: float, now: float
) -> Words:
    """The words in the rows of a store; ``now`` is the control plane's clock at ``wall``.

    A node counts as present that was there when any was last.
    """
    seen = {node.node_id: node.seen_at for node in nodes if node.seen_at is not None}
    newest = max(seen.values(), default=0.0)
    return Words(
        flags={
            node.node_id: NodeFlag(node.target, node.reason, node.actor, node.since or 0.0)
            for node in nodes
            if node.target is not NodeTarget.READY
        },
        rolls={
            roll.model: Roll(
                roll.model,
                begun_at=now - (wall - roll.begun_at),
                may_interrupt=roll.may_interrupt,
                halted=roll.halted,
            )
            for roll in rolls
        },
        known={node.node_id: _node(node, wall=wall, now=now) for node in nodes},
        banned=frozenset(node.node_id for node in nodes if node.is_banned),
        present=frozenset(k for k, at in seen.items() if at >= newest - PRESENT_WITHIN_S),
    )


def _node(row: StoredNode, *, wall: float, now: float) -> Node:
    """A node as it was when it was last written down; one that never came has no facts."""
    seen_at = row.enrolled_at if row.seen_at is None else row.seen_at
    try:
        facts = trees.decode(NodeFacts, {**row.facts, "node_id": row.node_id})
    except Invalid:  # another release wrote it: its name is enough to speak of it
        facts = NodeFacts(node_id=row.node_id)
    return Node(facts, last_seen_at=now - max(0.0, wall - seen_at), is_connected=False)


def _due(
    there: Mapping[str, Node], written_at: Mapping[str, float], *, now: float
) -> Collection[str]:
    """New nodes at once; the others together, once a while."""
    fresh = there.keys() - written_at.keys()
    if any(now - at >= SEEN_EVERY_S for at in written_at.values()):
        return there.keys()
    return fresh


def _told(node: Node) -> Mapping[str, object]:
    facts = node.facts
    return {
        "hostname": facts.hostname,
        "mgmt_addr": facts.mgmt_addr,
        "agent_version": facts.agent_version,
        "labels": dict(facts.labels),
    }
