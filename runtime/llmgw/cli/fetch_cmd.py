"""``llmgw ctl fetch``: have nodes fetch a model's weights before it starts there, or no longer."""

from __future__ import annotations

import click
from pydantic import TypeAdapter

from llmgw.cli.asking import Asking, asks
from llmgw.cli.failures import ExitCode
from llmgw.cli.screens import Column, Row
from llmgw.domain.weight_views import FetchOrderView

_ORDERS = (Column("NODE", is_whole=True), Column("TAKEN"), Column("IT SAYS", is_whole=True))

ANSWER_TIMEOUT_S = 75.0
"""Above the minute that the server gives nodes to answer."""


@click.command()
@click.argument("model")
@click.option("--node", "nodes", multiple=True, required=True, help="A node; give it repeatedly.")
@click.option("--cancel", is_flag=True, help="They need not have it any more.")
@asks
@click.pass_context
def fetch(
    ctx: click.Context, asking: Asking, *, model: str, nodes: tuple[str, ...], cancel: bool
) -> None:
    """Have nodes fetch the weights of MODEL ahead of its start there.

    Nothing is reserved and nothing starts. 'llmgw ctl weights' shows how far they are. With
    --cancel they stop, and keep what came. Exit code 5 when a node refuses.

    \b
    llmgw ctl fetch llama-3.3-70b --node gpu01 --node gpu02
    llmgw ctl fetch llama-3.3-70b --node gpu02 --cancel
    """  # noqa: D301 - click reads \b
    wanted = {"model": model, "node_ids": list(nodes), "is_cancelled": cancel}
    document = asking.client.send("POST", "weights/fetch", body=wanted, timeout_s=ANSWER_TIMEOUT_S)
    orders = asking.client.read(document.get("orders"), TypeAdapter(tuple[FetchOrderView, ...]))
    if asking.is_json:
        asking.screen.document(document)
    else:
        asking.screen.table(_ORDERS, [_row(order) for order in orders])
    if not all(order.is_done for order in orders):
        ctx.exit(ExitCode.REFUSED)


def _row(order: FetchOrderView) -> Row:
    return Row((order.node_id, "yes" if order.is_done else "no", order.detail))
