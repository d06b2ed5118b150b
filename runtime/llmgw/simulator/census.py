"""How a simulated fleet stands at one instant, as figures and as one mark a node; pure.

The fleet makes it, the command line shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llmgw.domain.replicas import ShardState
from llmgw.simulator.sim_node import Mood, SimNode

_SHOWN = (ShardState.PENDING, ShardState.LOADING, ShardState.READY, ShardState.DRAINING)


@dataclass(frozen=True, slots=True)
class Census:
    """Everybody counted at ``after_s`` seconds from the beginning."""

    after_s: float
    moods: tuple[Mood, ...]
    """One a node, in their order."""
    registered: int
    ever_registered: int
    shards: Mapping[ShardState, int]
    beats: int
    refusal: str = ""
    """Why one of those who are outside was refused."""

    @property
    def nodes(self) -> int:
        """How many there are."""
        return len(self.moods)


def take(nodes: Iterable[SimNode], *, after_s: float) -> Census:
    """Count everybody."""
    everybody = tuple(nodes)
    outside = [one for one in everybody if not one.is_registered]
    shards = Counter({state: sum(n.shards.count(state) for n in everybody) for state in _SHOWN})
    return Census(
        after_s=after_s,
        moods=tuple(one.mood for one in everybody),
        registered=len(everybody) - len(outside),
        ever_registered=sum(one.has_registered for one in everybody),
        shards=shards,
        beats=sum(one.beats for one in everybody),
        refusal=next((one.refusal for one in outside if one.refusal), ""),
    )
