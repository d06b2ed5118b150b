"""``llmgw ctl refusals``: who wanted to join and was not let in, and why."""

from __future__ import annotations

import click

from llmgw.cli import figures
from llmgw.cli.asking import Asking, asks
from llmgw.cli.screens import Column, Row
from llmgw.domain.views import RefusalView

_COLUMNS = (
    Column("NODE", is_whole=True),
    Column("CERTIFICATE", is_whole=True),
    Column("FROM", is_whole=True),
    Column("AGO"),
    Column("TIMES"),
)


@click.command()
@click.option("--node", help="Only what called itself so, or whose certificate does.")
@asks
def refusals(asking: Asking, *, node: str | None) -> None:
    """List the last refused or ended stream of each caller, with the reason under it.

    \b
    llmgw ctl refusals
    llmgw ctl refusals --node gpu01
    """  # noqa: D301 - click reads \b
    answer = asking.client.refusals(node=node)
    if asking.is_json:
        asking.screen.document(answer.document)
        return
    asking.screen.table(_COLUMNS, [_row(refusal) for refusal in answer.value])
    if not answer.value:
        asking.screen.line("nobody was turned away since the server started")


def _row(refusal: RefusalView) -> Row:
    return Row(
        cells=(
            refusal.node_id or None,
            refusal.common_name or None,
            refusal.peer,
            figures.age(refusal.ago_s),
            str(refusal.count),
        ),
        under=(refusal.message,),
    )
