"""``llmgw ctl logs``: the end of a log of a node."""

from __future__ import annotations

import click

from llmgw.cli.asking import Asking, asks
from llmgw.cli.screens import Column, Row

_AGENT = "agent"


@click.command()
@click.argument("node")
@click.option("--source", help="'agent', or the id of a shard; without it the sources are listed.")
@click.option("--lines", type=click.IntRange(1, 2000), default=200, show_default=True)
@asks
def logs(asking: Asking, *, node: str, source: str | None, lines: int) -> None:
    """Show the end of a log of NODE.

    \b
    llmgw ctl logs gpu01
    llmgw ctl logs gpu01 --source agent --lines 50
    """  # noqa: D301 - click reads \b
    answer = asking.client.logs(node, source=source or _AGENT, lines=lines if source else 1)
    if asking.is_json:
        asking.screen.document(answer.document)
    elif source is None:
        asking.screen.table([Column("SOURCE")], [Row((s,)) for s in answer.value.sources])
    else:
        for line in answer.value.lines:
            asking.screen.line(line)
