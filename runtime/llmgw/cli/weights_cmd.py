"""``llmgw ctl weights``: downloads on nodes: what is on its way, and what no model names."""

from __future__ import annotations

import click

from llmgw.cli import figures
from llmgw.cli.asking import Asking, asks
from llmgw.cli.failures import ExitCode
from llmgw.cli.screens import Column, Row
from llmgw.domain.weight_views import FetchView, OrphanView, RemovalView

_FETCHES = (
    Column("NODE", is_whole=True),
    Column("STATE"),
    Column("CAME"),
    Column("RATE"),
    Column("LEFT"),
    Column("MODEL"),
    Column("SOURCE", is_whole=True),
)
_ORPHANS = (
    Column("NODE", is_whole=True),
    Column("SIZE"),
    Column("SHARED"),
    Column("PATH", is_whole=True),
)
_REMOVALS = (Column("NODE", is_whole=True), Column("REMOVED"), Column("PATH", is_whole=True))


@click.command()
@click.option("--node", help="Only this node.")
@click.option("--collect", is_flag=True, help="Ask the nodes to remove them.")
@asks
@click.pass_context
def weights(ctx: click.Context, asking: Asking, *, node: str | None, collect: bool) -> None:
    """List downloads that are on their way, and those that no model of the catalog names.

    With --collect each node is asked to remove its own of the latter; it keeps what its shards use.
    Exit code 5 when something stays.

    \b
    llmgw ctl weights
    llmgw ctl weights --collect --node gpu01
    """  # noqa: D301 - click reads \b
    if collect:
        _collect(ctx, asking, node=node)
        return
    answer = asking.client.downloads(node=node)
    if asking.is_json:
        asking.screen.document(answer.document)
        return
    found = answer.value
    if found.fetches:
        asking.screen.table(_FETCHES, [_fetch(one) for one in found.fetches])
    asking.screen.table(_ORPHANS, [_orphan(one) for one in found.orphans])
    if not found.orphans:
        asking.screen.line("every download is named by a model")


def _collect(ctx: click.Context, asking: Asking, *, node: str | None) -> None:
    answer = asking.client.collect_weights(node_id=node)
    if asking.is_json:
        asking.screen.document(answer.document)
    else:
        asking.screen.table(_REMOVALS, [_removal(one) for one in answer.value])
        if not answer.value:
            asking.screen.line("every download is named by a model, so nothing was removed")
    if not all(one.is_removed for one in answer.value):
        ctx.exit(ExitCode.REFUSED)


def _fetch(one: FetchView) -> Row:
    fetch = one.fetch
    left = None if fetch.eta_s is None else f"{figures.age(fetch.eta_s)}"
    rate = None if not fetch.bytes_per_s else f"{figures.size(int(fetch.bytes_per_s))}/s"
    came = figures.part_of(fetch.done_bytes, fetch.total_bytes) or figures.size(fetch.done_bytes)
    models = figures.listed(one.models)
    under = (fetch.error,) if fetch.error else ()
    return Row((one.node_id, str(fetch.state), came, rate, left, models, fetch.source), under=under)


def _orphan(one: OrphanView) -> Row:
    shared = "yes" if one.is_shared else "no"
    return Row((one.node_id, figures.size(one.size_bytes), shared, one.path))


def _removal(one: RemovalView) -> Row:
    done = "yes" if one.is_removed else "no"
    under = (one.detail,) if one.detail else ()
    return Row(cells=(one.node_id, done, one.path), under=under)
