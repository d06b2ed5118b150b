"""``llmgw ctl engines``: which engines are on which nodes, and where one is missing."""

from __future__ import annotations

import click
from pydantic import TypeAdapter

from llmgw.cli import figures
from llmgw.cli.asking import Asking, asks
from llmgw.cli.screens import Column, Row
from llmgw.domain.engines_shown import EngineView

_SHAPE = TypeAdapter(tuple[EngineView, ...])
_COLUMNS = (
    Column("ENGINE", is_whole=True),
    Column("VERSION", is_whole=True),
    Column("NODES"),
    Column("ON"),
)


@click.command()
@click.option("--engine", help="Only this engine.")
@asks
def engines(asking: Asking, *, engine: str | None) -> None:
    """List the engines of the fleet, with a line under one for each node that lacks it.

    \b
    llmgw ctl engines
    llmgw ctl engines --engine vllm
    """  # noqa: D301 - click reads \b
    document = asking.client.send("GET", "engines", params={"engine": engine})
    if asking.is_json:
        asking.screen.document(document)
        return
    found = asking.client.read(document.get("engines"), _SHAPE)
    asking.screen.table(_COLUMNS, [_row(one) for one in found])
    if not found:
        asking.screen.line("no node has told of an engine")


def _row(one: EngineView) -> Row:
    return Row(
        (one.engine, one.version, str(len(one.node_ids)), figures.listed(one.node_ids)),
        under=[f"{t.state} on {t.node_id}: {t.detail}" for t in one.troubles],
    )
