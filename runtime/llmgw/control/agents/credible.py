"""Whether what a node says can be true: else it is refused before anything is decided from it.

Called by the agent service, before the fleet hears of it. One node's nonsense must not become
another's trouble: a card that is listed twice would be given twice, an address that is none would
be published. What can only harm the node itself, such as odd figures of a disk, is let through.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from llmgw.domain.fetch_status import FetchStatus
from llmgw.domain.names import SHARD_ID
from llmgw.domain.nodes import Gpu, HeartbeatFacts, NodeFacts
from llmgw.domain.replicas import RunningShard, ShardReport
from llmgw.errors import Invalid

LONGEST_BEAT_S = 3600.0
"""An agent that means to speak less often would never be missed."""

_T = TypeVar("_T", bound=Hashable)

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_LAST_PORT = 65535


def check_facts(facts: NodeFacts) -> None:
    """Raise ``Invalid`` with all that cannot be so in a registration."""
    _refuse(
        f"node {facts.node_id!r}",
        [
            *_address(facts.mgmt_addr, what="its management address"),
            *_port_range(facts.port_range),
            *_cards(facts.gpus),
            *_beat(facts.heartbeat_s),
            *_fetches(facts.fetches),
        ],
    )


def check_beat(beat: HeartbeatFacts, *, node_id: str) -> None:
    """Raise ``Invalid`` with all that cannot be so in a heartbeat."""
    _refuse(
        f"a heartbeat of node {node_id!r}",
        [*_cards(beat.gpus or ()), *_fetches(beat.fetches or ())],
    )


def check_running(shards: Sequence[RunningShard]) -> None:
    """Raise ``Invalid`` with all that cannot be so in what a node says it runs."""
    ranks = [(shard.replica_id, shard.rank) for shard in shards]
    _refuse(
        "what the node says it runs",
        [
            *(mistake for shard in shards for mistake in _shard(shard)),
            *(f"shard {one} is listed twice" for one in _twice(s.shard_id for s in shards)),
            *(f"rank {rank} of {replica} is listed twice" for replica, rank in _twice(ranks)),
        ],
    )


def check_report(report: ShardReport) -> None:
    """Raise ``Invalid`` with all that cannot be so in a report of a shard."""
    ids = [report.shard_id, *filter(None, [report.replica_id])]
    mistakes = [f"{name[:80]!r} is no id" for name in ids if not SHARD_ID.fullmatch(name)]
    if report.fetch is not None and not math.isfinite(report.fetch.bytes_per_s or 0.0):
        mistakes.append("the rate of its download is no number")
    _refuse("a report of a shard", mistakes)


def _refuse(what: str, mistakes: Sequence[str]) -> None:
    if mistakes:
        raise Invalid(f"{what} cannot be believed: {'; '.join(mistakes)}")


def _fetches(fetches: Sequence[FetchStatus]) -> Iterable[str]:
    if any(not math.isfinite(fetch.bytes_per_s or 0.0) for fetch in fetches):
        yield "the rate of a download is no number"


def _shard(shard: RunningShard) -> Iterable[str]:
    for name in (shard.shard_id, shard.replica_id):
        if not SHARD_ID.fullmatch(name):
            yield f"{name[:80]!r} is no id"
    if not 0 <= shard.rank < max(1, shard.nnodes):
        yield f"{shard.shard_id} has rank {shard.rank} of {shard.nnodes}"
    yield from _address(shard.leader_addr, what=f"the leader's address of {shard.shard_id}")
    for port in (shard.http_port, shard.leader_port):
        if not 0 <= port <= _LAST_PORT:
            yield f"{shard.shard_id} has port {port}"
    if _twice(shard.gpu_indices):
        yield f"{shard.shard_id} holds a card twice"


def _address(address: str, *, what: str) -> Iterable[str]:
    """An empty one is unknown; a wildcard leads nowhere."""
    try:
        is_wildcard = ipaddress.ip_address(address).is_unspecified
    except ValueError:
        if address and not _HOST_NAME.fullmatch(address):
            yield f"{what} {address[:80]!r} is neither an IP address nor a host name"
    else:
        if is_wildcard:
            yield f"{what} {address} is no machine's own"


def _port_range(ports: tuple[int, int] | None) -> Iterable[str]:
    if ports is not None and not 0 < ports[0] <= ports[1] <= _LAST_PORT:
        yield f"its ports go from {ports[0]} to {ports[1]}"


def _cards(gpus: Sequence[Gpu]) -> Iterable[str]:
    for index in _twice(gpu.index for gpu in gpus):
        yield f"card {index} is listed twice"


def _beat(heartbeat_s: float | None) -> Iterable[str]:
    if heartbeat_s is not None and not 0 < heartbeat_s <= LONGEST_BEAT_S:
        yield f"it would beat every {heartbeat_s:g} s, where an hour is the most"


def _twice(items: Iterable[_T]) -> list[_T]:
    return [item for item, count in Counter(items).items() if count > 1]
