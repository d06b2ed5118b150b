"""What runs when a trial begins: every wish that a plain walk over the nodes can meet; pure.

As if the control plane had been restarted over a fleet that serves: nodes tell it when they
register. Which cards are taken is no decision of ours, so none of the product's code is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from llmgw.control.placement.planning import Placement, Slot
from llmgw.control.reconciler import starting
from llmgw.domain import names
from llmgw.domain.catalog import Catalog, Model, Profile
from llmgw.domain.nodes import NodeFacts
from llmgw.domain.replicas import ShardSpec

_FIRST_PORT = 20000
_MIB_PER_GB = 1024


class _Room:
    """What is left of one node."""

    def __init__(self, facts: NodeFacts) -> None:
        self.facts = facts
        self.cards = [gpu for gpu in facts.gpus if not gpu.problems]
        self.port = _FIRST_PORT
        self.memory_gb = (
            float("inf") if facts.memory_total_mb is None else facts.memory_total_mb / _MIB_PER_GB
        )

    def takes(self, profile: Profile) -> bool:
        facts = self.facts
        of_class = sum(gpu.gpu_class == profile.gpu_class for gpu in self.cards)
        return (
            of_class >= profile.cards_per_node
            and self.memory_gb >= profile.min_memory_gb
            and (profile.engine in facts.engine_versions or profile.engine == "sim")
            and profile.node_selector.items() <= facts.labels.items()
        )

    def take(self, profile: Profile, *, rank: int, fabric: str) -> Slot:
        of_class = [gpu for gpu in self.cards if gpu.gpu_class == profile.gpu_class]
        taken = of_class[: profile.cards_per_node]
        self.cards = [gpu for gpu in self.cards if gpu not in taken]
        self.memory_gb -= profile.min_memory_gb
        is_meeting = bool(fabric) and rank == 0
        port, self.port = self.port, self.port + 1 + is_meeting
        return Slot(
            node_id=self.facts.node_id,
            rank=rank,
            http_port=port,
            leader_port=port + 1 if is_meeting else 0,
            gpu_indices=tuple(gpu.index for gpu in taken),
            hcas=next((one.hcas for one in self.facts.fabrics if one.name == fabric), ()),
        )


def running(catalog: Catalog, everybody: Sequence[NodeFacts]) -> Mapping[str, list[ShardSpec]]:
    """The shards that each node runs, the largest replicas placed first."""
    rooms = [_Room(facts) for facts in everybody]
    runs: dict[str, list[ShardSpec]] = defaultdict(list)
    for model in sorted(catalog.models.values(), key=_size, reverse=True):
        for number, placement in enumerate(_placements(model, rooms)):
            replica_id = names.replica_id(model=model.name, token=f"{number:08x}")
            placed = starting.place(
                placement, model=model, replica_id=replica_id, now=0.0, reason=""
            )
            for shard, spec in zip(placed.replica.shards, placed.specs, strict=True):
                runs[shard.node_id].append(spec)
    return runs


def _size(model: Model) -> tuple[int, int, str]:
    first = model.profiles[0] if model.profiles else None
    return (first.nodes, first.cards_per_node, model.name) if first else (0, 0, model.name)


def _placements(model: Model, rooms: Sequence[_Room]) -> Iterator[Placement]:
    """Places for what is always wanted of a model, as far as there are any."""
    many = model.scaling.min if model.scaling is not None else 0
    if not many or not model.profiles:
        return
    profile = model.profiles[0]
    groups = _groups(profile, rooms)
    for _ in range(many):
        fabric, chosen = next(groups, ("", ()))
        if not chosen:
            return
        slots = tuple(
            room.take(profile, rank=rank, fabric=fabric) for rank, room in enumerate(chosen)
        )
        yield Placement(
            profile=profile,
            slots=slots,
            leader_addr=chosen[0].facts.mgmt_addr,
            pool=f"{fabric or 'local'}/{profile.gpu_class or 'cpu'}",
            fabric=fabric,
        )


def _groups(profile: Profile, rooms: Sequence[_Room]) -> Iterator[tuple[str, Sequence[_Room]]]:
    """Nodes for one replica after the other, in turns; those over a fabric go by neighbours."""
    if profile.nodes == 1:
        while any(fitting := [room for room in rooms if room.takes(profile)]):
            yield from (("", (room,)) for room in fitting)
        return
    by_fabric: dict[str, list[_Room]] = defaultdict(list)
    for room in rooms:
        for one in room.facts.fabrics:
            if one.hcas and room.takes(profile):
                by_fabric[one.name].append(room)
    for fabric, members in by_fabric.items():
        for first in range(0, len(members) - profile.nodes + 1, profile.nodes):
            yield fabric, members[first : first + profile.nodes]
