"""``llmgw ctl weights``: downloads on nodes that no model names, and their removal."""

from __future__ import annotations

import click

from llmgw.cli import figures
from llmgw.cli.asking import Asking, asks
from llmgw.cli.failures import ExitCode
from llmgw.cli.screens import Column, Row
from llmgw.domain.views import OrphanView, RemovalView

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
    """List downloads that no model of the catalog names.

    With --collect each node is asked to remove its own; it keeps what its shards use. Exit code 5
    when something stays.

    \b
    llmgw ctl weights
    llmgw ctl weights --collect --node gpu01
    """  # noqa: D301 - click reads \b
    if collect:
        _collect(ctx, asking, node=node)
        return
    answer = asking.client.orphans(node=node)
    if asking.is_json:
        asking.screen.document(answer.document)
        return
    asking.screen.table(_ORPHANS, [_orphan(one) for one in answer.value])
    if not answer.value:
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


def _orphan(one: OrphanView) -> Row:
    shared = "yes" if one.is_shared else "no"
    return Row((one.node_id, figures.size(one.size_bytes), shared, one.path))


def _removal(one: RemovalView) -> Row:
    done = "yes" if one.is_removed else "no"
    under = (one.detail,) if one.detail else ()
    return Row(cells=(one.node_id, done, one.path), under=under)
