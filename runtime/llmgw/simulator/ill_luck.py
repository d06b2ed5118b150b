"""Brings the mishaps of a schedule upon virtual nodes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from llmgw.control.reconciler.records import Records
from llmgw.domain.nodes import NodeTarget
from llmgw.domain.snapshots import Bounds
from llmgw.simulator import mishaps
from llmgw.simulator.agenda import Agenda
from llmgw.simulator.mishaps import Kind, Mishap, Rates
from llmgw.simulator.virtual_nodes import VirtualNodes

_MOMENT_S = 0.1
_MAINTENANCE = "maintenance"


class IllLuck:
    """One mishap after the other, where somebody is there to suffer it."""

    def __init__(
        self,
        rates: Rates,
        *,
        nodes: VirtualNodes,
        records: Records,
        agenda: Agenda,
        seed: int,
        on_due: Callable[[], None],
    ) -> None:
        """``on_due`` is called when a silence has lasted so long that a pass should look."""
        self._rates = rates
        self._nodes = nodes
        self._records = records
        self._agenda = agenda
        self._on_due = on_due
        self._bounds = Bounds()
        self._coming = mishaps.schedule(rates, seed=seed)
        self._draw = random.Random(f"{seed} absences")  # noqa: S311 - nothing secret is drawn
        self._kept: set[str] = set()
        """Nodes that an operator works on."""
        self.befallen: Counter[str] = Counter()
        self._await_next()

    def _await_next(self) -> None:
        mishap = next(self._coming, None)
        if mishap is not None:
            wait_s = max(0.0, mishap.at_s - self._agenda.monotonic())
            self._agenda.after(wait_s, lambda: self._befall(mishap))

    def _befall(self, mishap: Mishap) -> None:
        self._await_next()
        taken = self._nodes.silent | self._kept
        present = [node_id for node_id in self._nodes.ids if node_id not in taken]
        if not present:
            return
        node_id = present[int(mishap.draw * len(present))]
        match mishap.kind:
            case Kind.LOSS:
                self._lose(node_id)
            case Kind.FLAP:
                self._flap(node_id)
            case Kind.MASS:
                self._lose_many(mishap.draw)
            case Kind.DRAIN:
                self._keep(node_id)
            case Kind.CRASH:
                serving = self._nodes.serving()
                if not serving:
                    return
                self._nodes.crash(*serving[int(mishap.draw * len(serving))])
        self.befallen[mishap.kind] += 1

    def _lose(self, node_id: str) -> None:
        away_s = self._rates.lost_for_s * self._draw.uniform(0.5, 1.5)
        self._nodes.lose_power(node_id, for_s=away_s)
        self._look_again()

    def _lose_many(self, draw: float) -> None:
        """Neighbours: a rack, a room, a fabric."""
        ids = self._nodes.ids
        first, many = int(draw * len(ids)), max(1, int(self._rates.mass_share * len(ids)))
        for place in range(many):
            self._lose(ids[(first + place) % len(ids)])

    def _flap(self, node_id: str) -> None:
        cut_s = self._rates.cut_s
        for number in range(self._rates.flap_times):
            self._agenda.after(2 * cut_s * number, lambda: self._cut(node_id))

    def _cut(self, node_id: str) -> None:
        self._nodes.cut(node_id, for_s=self._rates.cut_s)
        if self._rates.cut_s >= self._bounds.unreachable_after_s:
            self._look_again()

    def _keep(self, node_id: str) -> None:
        self._kept.add(node_id)
        self._records.flag(
            node_id,
            self._records.flag_for(node_id, target=NodeTarget.DRAINING, reason=_MAINTENANCE),
        )
        self._agenda.after(self._rates.drained_for_s, lambda: self._give_back(node_id))

    def _give_back(self, node_id: str) -> None:
        self._kept.discard(node_id)
        self._records.flag(
            node_id, self._records.flag_for(node_id, target=NodeTarget.READY, reason="")
        )

    def _look_again(self) -> None:
        """When who is silent now becomes unreachable, and when it counts as lost."""
        for after_s in (self._bounds.unreachable_after_s, self._bounds.lost_after_s):
            self._agenda.after(after_s + _MOMENT_S, self._on_due)
