"""What operators say, as it takes effect on the cluster; ``control.operators`` keeps it before.

Each call returns at once; ``Standby`` unless this control plane leads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from llmgw.control.reconciler.course import Course
from llmgw.control.reconciler.ports import Rooms
from llmgw.control.reconciler.records import Records
from llmgw.domain.catalog import Model, unknown_model
from llmgw.domain.nodes import Node, NodeTarget, not_let_in
from llmgw.domain.snapshots import Roll
from llmgw.domain.stored import NodeFlag
from llmgw.domain.views import ModelView, NodeView
from llmgw.errors import Standby


class Shown(Protocol):
    """The fleet as people see it; the reconciler fits."""

    def nodes(self) -> Sequence[NodeView]:
        """Every known node."""
        ...

    def models(self) -> Sequence[ModelView]:
        """Every catalog entry."""
        ...


class Instructions:
    """One reconciler's ear for operators."""

    def __init__(
        self,
        rooms: Rooms,
        *,
        records: Records,
        course: Course,
        fleet: Shown,
        on_change: Callable[[], None],
    ) -> None:
        """``on_change`` is called when a pass should look, where ``records`` do not do so."""
        self._rooms = rooms
        self._records = records
        self._course = course
        self._fleet = fleet
        self._on_change = on_change

    def recall(
        self,
        *,
        flags: Mapping[str, NodeFlag],
        rolls: Mapping[str, Roll],
        known: Mapping[str, Node],
        banned: Collection[str],
        present: Collection[str],
    ) -> None:
        """What was said before this lead, the nodes that are known, and those to await in it."""
        self._records.recall(flags=flags, rolls=rolls, known=known, banned=banned)
        self._course.expect(present)

    def nodes_now(self) -> Mapping[str, Node]:
        """Every known node."""
        return self._records.cluster.nodes

    def rolls_now(self) -> Mapping[str, Roll]:
        """The rolls under way, those that halted included."""
        return self._records.cluster.rolls

    def flag_for(self, node_id: str, *, target: NodeTarget, reason: str, actor: str) -> NodeFlag:
        """What a word on a node comes to; ``Unknown`` node."""
        self._need_lead()
        return self._records.flag_for(node_id, target=target, reason=reason, actor=actor)

    def flag_node(self, node_id: str, flag: NodeFlag) -> NodeView:
        """Cordon, drain or free a node; a registration leaves that so."""
        self._need_lead()
        self._records.flag(node_id, flag)
        return self._view(node_id)

    def check_known(self, node_id: str) -> None:
        """``Unknown`` node."""
        self._need_lead()
        self._records.check_known(node_id)

    def ban_node(self, node_id: str, *, is_banned: bool) -> NodeView:
        """Let a node in no more, and end its stream; or let it in again."""
        self._need_lead()
        self._records.ban(node_id, is_banned=is_banned)
        if is_banned:
            self._rooms.dismiss(node_id, not_let_in(node_id))
        return self._view(node_id)

    def check_forget(self, node_id: str) -> None:
        """``Conflict`` while a node is connected or holds something; ``Unknown``."""
        self._need_lead()
        self._records.check_forget(node_id)

    def forget_node(self, node_id: str) -> None:
        """Let go of a node that is gone; ``Conflict`` while it is connected or holds something."""
        self._need_lead()
        self._records.forget(node_id)

    def forget_silent(self, *, for_s: float) -> None:
        """Let go of nodes that are lost for so long, and of which nobody has said anything."""
        self._records.forget_silent(for_s=for_s)

    def roll_for(self, model: str, *, may_interrupt: bool) -> Roll:
        """The roll of a model (name or alias) of which replicas are of an older profile."""
        name = self._named(model).name
        now = self._rooms.clock.monotonic()
        return Roll(name, begun_at=now, may_interrupt=may_interrupt)

    def begin_roll(self, roll: Roll) -> ModelView:
        """Have these replicas follow the profile of their model."""
        self._named(roll.model)
        self._records.roll(roll)
        return next(view for view in self._fleet.models() if view.name == roll.model)

    def retry(self, model: str) -> ModelView:
        """Start a model (name or alias) that failed without waiting longer; ``Unknown`` model."""
        found = self._named(model)
        self._records.retry(found.name)
        return next(view for view in self._fleet.models() if view.name == found.name)

    def lift_brake(self) -> bool:
        """Judge silent nodes as if only few of them were; false where no brake was on."""
        self._need_lead()
        was_on = self._course.lift_brake(self._records.cluster, now=self._rooms.clock.monotonic())
        self._on_change()
        return was_on

    def _view(self, node_id: str) -> NodeView:
        return next(view for view in self._fleet.nodes() if view.node_id == node_id)

    def _named(self, model: str) -> Model:
        self._need_lead()
        found = self._rooms.catalog.current().resolve(model)
        if found is None:
            raise unknown_model(model)
        return found

    def _need_lead(self) -> None:
        if not self._rooms.leadership.is_leader():
            raise Standby("this control plane is a standby; ask the one that leads")
