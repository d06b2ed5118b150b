"""``llmgw ctl nodes``: the machines, what they have and what of that is promised."""

from __future__ import annotations

from collections import Counter

import click

from llmgw.cli import figures
from llmgw.cli.asking import Asking, asks
from llmgw.cli.screens import Column, Row
from llmgw.domain.fetch_status import FetchState, FetchStatus
from llmgw.domain.nodes import EngineInstall, InstallState
from llmgw.domain.views import GpuUse, GpuView, NodeView

_MEBIBYTE = 1024 * 1024
_STATES = ("ready", "cordoned", "draining", "unreachable", "lost", "banned")

_COLUMNS = (
    Column("NODE", is_whole=True),
    Column("STATE", is_state=True),
    Column("SEEN"),
    Column("GPUS", is_whole=True),
    Column("MEMORY FREE", is_whole=True),
    Column("DISK FREE", is_whole=True),
    Column("FABRIC"),
    Column("ENGINES"),
    Column("RUNNING"),
)
_WIDE = (
    Column("ADDRESS", is_whole=True),
    Column("AGENT"),
    Column("DRIVER"),
    Column("LABELS", is_whole=True),
)


@click.command()
@click.option("--state", type=click.Choice(_STATES), help="Only nodes in this state.")
@click.option("--label", metavar="KEY=VALUE", help="Only nodes with this label.")
@click.option("--fabric", help="Only nodes on this fabric.")
@click.option("--gpu-class", help="Only nodes with a card of this class.")
@click.option("--engine", help="Only nodes that have this engine.")
@click.option("--wide", "is_wide", is_flag=True, help="Address, agent, driver and labels too.")
@asks
def nodes(asking: Asking, *, is_wide: bool, **filters: str | None) -> None:
    """List the machines. GPUS counts free, used and unhealthy cards of each class.

    \b
    llmgw ctl nodes
    llmgw ctl nodes --gpu-class h100-80g --state ready --wide
    """  # noqa: D301 - click reads \b
    answer = asking.client.nodes(**filters)
    if asking.is_json:
        asking.screen.document(answer.document)
        return
    columns = (*_COLUMNS, *_WIDE) if is_wide else _COLUMNS
    asking.screen.table(columns, [_row(node, is_wide=is_wide) for node in answer.value])
    if not answer.value:
        asking.screen.line("no nodes" if any(filters.values()) else _NO_NODES)


_NO_NODES = "no node has registered yet: start 'llmgw agent' on one"


def _row(node: NodeView, *, is_wide: bool) -> Row:
    wide = (
        node.mgmt_addr or None,
        node.agent_version or None,
        node.host.nvidia_driver or None,
        figures.listed([f"{key}={value}" for key, value in sorted(node.labels.items())]),
    )
    return Row(
        cells=(
            node.node_id,
            node.state,
            figures.age(node.last_seen_s),
            _gpus(node),
            _memory(node),
            _disk(node),
            figures.listed([f.name for f in node.fabrics]),
            _engines(node),
            figures.listed(node.replica_ids),
            *(wide if is_wide else ()),
        ),
        under=_remarks(node),
    )


def _gpus(node: NodeView) -> str:
    counts = Counter((gpu.gpu_class, gpu.use) for gpu in node.gpus)
    classes = sorted({gpu.gpu_class for gpu in node.gpus})
    return figures.listed(
        [f"{c} {'/'.join(str(counts[c, use]) for use in GpuUse)}" for c in classes]
    )


def _memory(node: NodeView) -> str | None:
    return figures.part_of(_bytes(node.memory_available_mb), _bytes(node.memory_total_mb))


def _bytes(mebibytes: int | None) -> int | None:
    return None if mebibytes is None else mebibytes * _MEBIBYTE


def _disk(node: NodeView) -> str | None:
    """The node's own filesystems; what it shares with others would be counted once a node."""
    own = [s for s in node.storage if not s.is_shared]
    if not own:
        return None
    return figures.part_of(sum(s.free_bytes for s in own), sum(s.total_bytes for s in own))


def _engines(node: NodeView) -> str | None:
    if node.engine_versions is None:
        return None
    return figures.listed([f"{e} {v}".strip() for e, v in sorted(node.engine_versions.items())])


def _remarks(node: NodeView) -> list[str]:
    remarks = [_problem(gpu) for gpu in node.gpus if gpu.problems]
    remarks += [line for install in node.engine_installs if (line := _install(install))]
    remarks += [_fetch(fetch) for fetch in node.fetches]
    remarks += [*node.fabric_problems, *node.warnings]
    if node.flag_reason:
        remarks.append(f"{node.target}: {node.flag_reason}")
    if node.is_banned:
        remarks.append(f"banned, until 'llmgw ctl unban {node.node_id}'")
    if not node.is_connected:
        remarks.append("its agent has no connection to this control plane")
    if node.stray_shard_ids:
        remarks.append(f"told to stop, not yet confirmed: {', '.join(node.stray_shard_ids)}")
    return remarks


def _install(install: EngineInstall) -> str:
    """What a person should know of an engine; nothing of one that is as it should be."""
    what = f"engine {install.engine} {install.version}"
    if install.state is not InstallState.READY:
        return f"{what} is {install.state}: {install.detail}"
    return f"{what}: {install.warning}" if install.warning else ""


def _fetch(fetch: FetchStatus) -> str:
    if fetch.state is FetchState.FAILED:
        return f"could not fetch {fetch.name}: {fetch.error}"
    came = figures.part_of(fetch.done_bytes, fetch.total_bytes) or figures.size(fetch.done_bytes)
    return f"fetches {fetch.name}: {came}"


def _problem(gpu: GpuView) -> str:
    return f"gpu {gpu.index} ({gpu.gpu_class}) is out of use: {'; '.join(gpu.problems)}"
