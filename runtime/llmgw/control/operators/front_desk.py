"""Hears what operators say of nodes and rolls: it is kept first, then it takes effect.

Fits the admin API's ports. One word is heard at a time. What could not be kept changes nothing and
is told; where nobody knows whether it was kept, the store is asked later and its answer holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from llmgw.control.operators.kept_words import Fleet, Shelves
from llmgw.control.operators.remembering import Memory
from llmgw.domain.nodes import NodeTarget
from llmgw.domain.stored import StoredRoll
from llmgw.domain.views import ModelView, NodeView
from llmgw.errors import DeadlinePassed, Standby, Unavailable, Unknown
from llmgw.kit.clock import Clock

WITHIN_S = 12.0
"""The longest that a word may take, with those before it."""


class FrontDesk:
    """Where words arrive; without ``shelves`` they hold until this process ends."""

    def __init__(
        self, fleet: Fleet, *, shelves: Shelves | None, memory: Memory, clock: Clock
    ) -> None:
        """``memory`` writes the same shelves, and looks again where nobody knows what is kept."""
        self._fleet = fleet
        self._shelves = shelves
        self._clock = clock
        self._memory = memory

    async def set_node_state(
        self, node_id: str, *, target: NodeTarget, reason: str, actor: str
    ) -> NodeView:
        """Cordon, drain or free a node; ``Unknown`` node, ``Standby``, or what the store raises."""
        async with self._heard():
            flag = self._fleet.flag_for(node_id, target=target, reason=reason, actor=actor)
            if self._shelves is not None:
                await self._shelves.nodes.flag(node_id, flag, owner=self._shelves.owner)
            return self._fleet.flag_node(node_id, flag)

    async def ban_node(self, node_id: str, *, is_banned: bool) -> NodeView:
        """Let a node in no more, or again; ``Unknown`` node, ``Standby``, or the store's."""
        async with self._heard():
            self._fleet.check_known(node_id)
            if self._shelves is not None:
                await _banned(self._shelves, node_id, is_banned=is_banned)
            return self._fleet.ban_node(node_id, is_banned=is_banned)

    async def forget_node(self, node_id: str) -> None:
        """Let go of a node that is gone; ``Conflict`` while it is there."""
        async with self._heard():
            self._fleet.check_forget(node_id)
            if self._shelves is not None:
                await _unless_gone(self._shelves, node_id)
            self._fleet.forget_node(node_id)

    async def roll(self, model: str, *, may_interrupt: bool, actor: str) -> ModelView:
        """Have the replicas of a model (name or alias) follow its profile; ``Unknown`` model."""
        async with self._heard():
            roll = self._fleet.roll_for(model, may_interrupt=may_interrupt)
            if self._shelves is not None:
                row = StoredRoll(
                    roll.model,
                    begun_at=self._clock.wall(),
                    may_interrupt=may_interrupt,
                    actor=actor,
                )
                await self._shelves.rolls.put(row, owner=self._shelves.owner)
                self._memory.note_roll(row)
            return self._fleet.begin_roll(roll)

    def retry(self, model: str) -> ModelView:
        """Start a model anew that failed: failures are not kept, so neither is this."""
        return self._fleet.retry(model)

    @asynccontextmanager
    async def _heard(self) -> AsyncIterator[None]:
        """One word: bounded, and told as not done where it could not be kept."""
        try:
            async with asyncio.timeout(WITHIN_S), self._memory.turn:
                yield
        except TimeoutError as error:
            self._memory.doubt()
            raise DeadlinePassed(
                f"nothing was changed: it could not be kept within {WITHIN_S:g} s; look again "
                "before you say it once more"
            ) from error
        except Standby:
            raise
        except asyncio.CancelledError:
            self._memory.doubt()
            raise
        except DeadlinePassed as error:
            self._memory.doubt()
            raise DeadlinePassed(
                f"{error.message}; nothing was changed yet, and whether it was kept comes out when "
                "the store answers: look again then"
            ) from error
        except Unavailable as error:
            self._memory.doubt()
            raise type(error)(f"nothing was changed: {error.message}") from error


async def _banned(shelves: Shelves, node_id: str, *, is_banned: bool) -> None:
    try:
        await shelves.nodes.ban(node_id, is_banned=is_banned, owner=shelves.owner)
    except Unknown as error:
        raise Unavailable(
            f"{node_id} has just registered and is not written down yet; say it again in a moment"
        ) from error


async def _unless_gone(shelves: Shelves, node_id: str) -> None:
    try:
        await shelves.nodes.forget(node_id, owner=shelves.owner)
    except Unknown:
        return  # it registered a moment ago, and was never written down
