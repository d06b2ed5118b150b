"""``llmgw ctl decisions``: what the last passes of the control plane did, and why."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from pydantic import TypeAdapter

from llmgw.cli.asking import Asking, asks
from llmgw.cli.params import MOMENT
from llmgw.cli.screens import Column, Row
from llmgw.domain.decided import DecidedPass

_SHAPE = TypeAdapter(tuple[DecidedPass, ...])
_COLUMNS = (
    Column("AT", is_whole=True),
    Column("PASS"),
    Column("ACTION", is_whole=True),
    Column("ON", is_whole=True),
    Column("REASON"),
)


@click.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option(
    "--since",
    type=MOMENT,
    metavar="TIME",
    help="Only passes from then on, as 2026-11-30T09:12:04, in UTC unless it ends in an offset.",
)
@asks
def decisions(asking: Asking, *, limit: int, since: float | None) -> None:
    """List what the last passes did that did something, the newest first.

    They are read from the journal of the server that answers; 'llmgw replay' decides them again.

    \b
    llmgw ctl decisions
    llmgw ctl decisions --since 2026-11-30T09:00:00 --limit 200
    """  # noqa: D301 - click reads \b
    params = {"limit": str(limit), "since": None if since is None else str(since)}
    document = asking.client.send("GET", "decisions", params=params)
    if asking.is_json:
        asking.screen.document(document)
        return
    found = asking.client.read(document.get("passes"), _SHAPE)
    asking.screen.table(_COLUMNS, [row for one in found for row in _rows(one)])
    if not found:
        asking.screen.line("no pass has done anything" + (" since then" if since else " yet"))


def _rows(one: DecidedPass) -> list[Row]:
    at = datetime.fromtimestamp(one.at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    rows = [Row((at, str(one.number), a.kind, a.subject, a.reason)) for a in one.actions]
    unplaced = [f"{model} is not placed: {why}" for model, why in one.refusals.items()]
    return [*rows[:-1], Row(rows[-1].cells, under=unplaced)] if rows else []
