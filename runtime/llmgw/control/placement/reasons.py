"""Why a node or a profile was refused, as sentences with the figures that a person needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from llmgw.control.inventory import claims as claiming
from llmgw.control.inventory.claims import Claims
from llmgw.domain.catalog import Profile
from llmgw.domain.nodes import EngineInstall, Gpu, InstallState, Liveness, Node, Storage

NO_ADDRESS = "it reports no address on which an engine could be reached"
NO_NODES = "no node has registered"
_MOST_NAMED = 4


def silent(node: Node, *, now: float) -> str:
    """The node is not there, or cannot be told anything."""
    if node.liveness is Liveness.READY:
        since_s = now - (node.disconnected_at or node.last_seen_at)
        return f"its stream ended {since_s:.0f} s ago"
    return f"it is {node.liveness}: silent for {now - node.last_seen_at:.0f} s"


def flagged(node: Node) -> str:
    """An operator keeps it free."""
    flag = "draining" if node.is_draining else "cordoned"
    by = f" by {node.flag_actor}" if node.flag_actor else ""
    return f"it is {flag}{by}{': ' if node.flag_reason else ''}{node.flag_reason}"


def label(key: str, *, wanted: str, found: str | None) -> str:
    """A label is not what the selector asks for."""
    return f"it needs label {key}={wanted}; {key} is {'not set' if found is None else found}"


def engine(name: str, *, present: Mapping[str, str], install: EngineInstall | None) -> str:
    """The engine is not there; how its installation stands, where there is one."""
    has = ", ".join(f"{e} {v}" for e, v in sorted(present.items())) or "no engine"
    if install is None:
        return f"{name} is not installed and no installation was asked for; it has {has}"
    told = f"{name} {install.version}".rstrip() + f" {_INSTALLS[install.state]}"
    return f"{told}: {install.detail}" if install.detail else told


_INSTALLS = {
    InstallState.WANTED: "is to be installed",
    InstallState.INSTALLING: "is being installed",
    InstallState.READY: "is installed, but the node does not report it",
    InstallState.FAILED: "could not be installed",
    InstallState.UNSUPPORTED: "cannot be installed here",
}


def memory(*, total_mb: float, promised_mb: float, needed_mb: float) -> str:
    """Too much is promised."""
    return f"memory: {_gb(total_mb)} in all, {_gb(promised_mb)} promised, {_gb(needed_mb)} needed"


def disk(where: Storage, *, promised_gb: float, needed_gb: float) -> str:
    """The weights would not fit."""
    free_gb = where.free_bytes / claiming.BYTES_PER_GB
    total_gb = where.total_bytes / claiming.BYTES_PER_GB
    promised = f", {promised_gb:.1f} GiB of it promised to other downloads" if promised_gb else ""
    return (
        f"disk {where.path}: {free_gb:.1f} GiB free of {total_gb:.1f} GiB{promised}, "
        f"{needed_gb:.1f} GiB needed"
    )


def gpu_class(wanted: str, *, gpus: Sequence[Gpu]) -> str:
    """None of its cards is of the class."""
    present = ", ".join(sorted({gpu.gpu_class for gpu in gpus})) or "no GPU"
    return f"it needs {wanted}; it has {present}"


def gpus(node: Node, claims: Claims, *, profile: Profile) -> str:
    """Its cards of the class are taken or unhealthy."""
    cards = [gpu for gpu in node.facts.gpus if gpu.gpu_class == profile.gpu_class]
    holders = [claims.gpus[gpu.index] for gpu in cards if gpu.index in claims.gpus]
    unhealthy = {
        gpu.index: problems
        for gpu in cards
        if gpu.index not in claims.gpus and (problems := claiming.problems(gpu, claims))
    }
    free = len(cards) - len(holders) - len(unhealthy)
    parts = [f"it needs {profile.cards_per_node} free {profile.gpu_class}; {free} free"]
    if holders:
        parts.append(f"{len(holders)} taken by {_some(sorted(set(holders)))}")
    if unhealthy:
        named = _some([f"{i}: {'; '.join(texts)}" for i, texts in sorted(unhealthy.items())])
        parts.append(f"{len(unhealthy)} unhealthy ({named})")
    return ", ".join(parts)


def ports(
    port_range: tuple[int, int], *, stray: AbstractSet[int], needed: int, in_a_row: int
) -> str:
    """Its port range is used up."""
    first, last = port_range
    held = sum(first <= port <= last for port in stray)
    row = f" ({in_a_row} of them in a row)" if in_a_row > 1 else ""
    return (
        f"fewer than {needed} free port(s){row} in {first}-{last}, "
        f"{held} held by engines that have not confirmed their end"
    )


def no_fabric(problems: Sequence[str]) -> str:
    """It could not meet other nodes; ``problems`` are what its agent says of declared fabrics."""
    said = f" ({_some(problems)})" if problems else ""
    return f"it reports no fabric, so it cannot share a replica with other nodes{said}"


def too_small(fabrics: Mapping[str, int], *, needed: int) -> str:
    """The node fits, and too few others of its fabrics do, or they meet in another way."""
    counts = ", ".join(f"{name} has {count}" for name, count in sorted(fabrics.items()))
    return f"it fits, but {needed} such nodes of one fabric are needed and {counts}"


def one_node(refused: Mapping[str, int], *, closest: str) -> str:
    """Why a profile for one node fits nowhere; ``refused`` counts nodes by failed check."""
    if not refused:
        return NO_NODES
    nodes = sum(refused.values())
    counts = ", ".join(f"{count} by {check}" for check, count in refused.items())
    return f"none of {nodes} node(s) fits (refused {counts}); {closest}"


def many_nodes(
    fitting: Mapping[str, int], members: Mapping[str, int], *, needed: int, why: str
) -> str:
    """Why a profile for several nodes fits nowhere; the counts are by fabric."""
    if not members:
        return f"it needs {needed} nodes of one fabric, and no node reports a fabric"
    counts = ", ".join(
        f"{name}: {fitting.get(name, 0)} of {count} qualify"
        for name, count in sorted(members.items())
    )
    return f"it needs {needed} nodes of one fabric ({counts}); {why}"


def counted(checks: Sequence[str]) -> Mapping[str, int]:
    """How many nodes failed each check, most first."""
    return dict(sorted(Counter(checks).items(), key=lambda item: (-item[1], item[0])))


def _some(texts: Sequence[str]) -> str:
    named = ", ".join(texts[:_MOST_NAMED])
    return f"{named} and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else named


def _gb(mib: float) -> str:
    return f"{mib / claiming.MIB_PER_GB:.1f} GiB"
