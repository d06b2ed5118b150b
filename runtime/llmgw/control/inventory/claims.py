"""Who owes what: cards, memory, disk and ports of each node that replicas and strays hold; pure.

A replica holds all its claims until it is released whole, also while it fails or stops. Memory and
disk are what its profile declared, never a measurement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.domain import names
from llmgw.domain.nodes import FOREIGN_MEMORY_MIB, Gpu, Node
from llmgw.domain.replicas import Replica, Shard, Stray
from llmgw.domain.snapshots import Cluster

MIB_PER_GB = 1024
BYTES_PER_GB = 1024**3

FOREIGN = "held by another process"


@dataclass(slots=True)
class Claims:
    """What one node has promised; filled by ``by_node`` and only read afterwards."""

    gpus: dict[int, str] = field(default_factory=dict)
    """Replica by card index, also one that is gone but for an engine that has not ended yet."""
    memory_mb: float = 0.0
    disk_gb: float = 0.0
    """Downloads that were promised and are not seen in the node's free space yet."""
    ports: set[int] = field(default_factory=set)
    """Ports of replicas, on every node that shares this one's address."""
    stray_ports: set[int] = field(default_factory=set)
    blocked_ports: set[int] = field(default_factory=set)
    """Ports on which a stranger was found listening."""
    replicas: int = 0
    by_model: dict[str, int] = field(default_factory=dict)

    @property
    def taken_ports(self) -> set[int]:
        """Ports that no new shard may be given."""
        return self.ports | self.stray_ports | self.blocked_ports


def by_node(cluster: Cluster, *, now: float) -> Mapping[str, Claims]:
    """The claims on every node, also on one that has none."""
    book = {node_id: Claims() for node_id in cluster.nodes}
    _share_ports_of_one_address(cluster.nodes, book)
    for replica in cluster.replicas.values():
        for shard in replica.shards:
            if (claims := book.get(shard.node_id)) is not None:
                _claim(claims, replica, shard)
    for stray in cluster.strays.values():
        if (claims := book.get(stray.node_id)) is not None:
            _claim_for_stray(claims, stray, now=now)
    for (node_id, port), until_at in cluster.blocked_ports.items():
        if until_at > now and node_id in book:
            book[node_id].blocked_ports.add(port)
    return book


def keep_room(book: Mapping[str, Claims], cluster: Cluster, *, besides: str, now: float) -> None:
    """Add to the claims what is kept for models, ``besides`` the one that asks.

    What is to be left by others is claimed by them until they have, so this counts both: nobody
    else is to come in between.
    """
    for kept in cluster.reservations.values():
        if kept.model == besides or kept.until_at <= now:
            continue
        for node_id, cards in kept.gpus_by_node.items():
            if (claims := book.get(node_id)) is None:
                continue
            for index in cards:
                claims.gpus.setdefault(index, f"room kept for {kept.model}")
            claims.memory_mb += kept.memory_gb * MIB_PER_GB
            claims.disk_gb += kept.disk_gb


def is_foreign(gpu: Gpu, claims: Claims) -> bool:
    """Whether a card that nobody of ours holds has memory in use."""
    used_mib = gpu.memory_used_mib or 0
    return gpu.index not in claims.gpus and used_mib > FOREIGN_MEMORY_MIB


def problems(gpu: Gpu, claims: Claims) -> tuple[str, ...]:
    """What keeps a card out of placement, besides being held by a replica."""
    return (*gpu.problems, FOREIGN) if is_foreign(gpu, claims) else gpu.problems


def _share_ports_of_one_address(nodes: Mapping[str, Node], book: Mapping[str, Claims]) -> None:
    """Agents of one machine listen on one address: a port is free there for one of them only."""
    at: defaultdict[str, list[Claims]] = defaultdict(list)
    for node_id, node in nodes.items():
        if node.facts.mgmt_addr:
            at[node.facts.mgmt_addr].append(book[node_id])
    for together in at.values():
        for claims in together[1:]:
            claims.ports = together[0].ports
            claims.stray_ports = together[0].stray_ports
            claims.blocked_ports = together[0].blocked_ports


def _claim_for_stray(claims: Claims, stray: Stray, *, now: float) -> None:
    """An engine that was told to end has its time for that, as one of a replica has."""
    if stray.http_port:
        claims.stray_ports.add(stray.http_port)
    for index in stray.gpu_indices if now < stray.cards_until_at else ():
        claims.gpus.setdefault(index, names.replica_of(stray.shard_id))


def _claim(claims: Claims, replica: Replica, shard: Shard) -> None:
    for index in shard.gpu_indices:
        claims.gpus[index] = replica.replica_id
    claims.memory_mb += replica.memory_claim_gb * MIB_PER_GB
    if replica.ready_at is None:
        claims.disk_gb += replica.disk_claim_gb
    claims.ports.update(replica.ports_of(shard))
    claims.replicas += 1
    claims.by_model[replica.model] = claims.by_model.get(replica.model, 0) + 1
