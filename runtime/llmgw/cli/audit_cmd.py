"""``llmgw ctl audit``: who did what to the fleet, and what was refused."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import click
from pydantic import TypeAdapter

from llmgw.cli import plain
from llmgw.cli.asking import Asking, asks
from llmgw.cli.params import SINCE
from llmgw.cli.screens import Column, Row
from llmgw.domain.stored import AuditEntry

_POLL_S = 2.0
_MOST = 1000
_COLUMNS = (
    Column("TIME", is_whole=True),
    Column("WHO"),
    Column("DID", is_whole=True),
    Column("TO", is_whole=True),
    Column("OUTCOME", is_whole=True),
    Column("WITH"),
)


@click.command()
@click.option("--since", type=SINCE, help="Not older: 2h, 15m, or a time as 2026-11-30T09:12.")
@click.option("--subject", help="Only what was done to this node or model.")
@click.option("--actor", help="Only what this user did.")
@click.option("--limit", type=click.IntRange(1, _MOST), default=50, show_default=True)
@click.option("--follow", "-f", is_flag=True, help="Go on with what is done from now on.")
@asks
def audit(
    asking: Asking,
    *,
    since: float | None,
    subject: str | None,
    actor: str | None,
    limit: int,
    follow: bool,
) -> None:
    """Show who changed what, and what was refused, the newest last.

    The log is kept in the store (auth.store), for audit.retain_days. Who it was is by its own word.

    \b
    llmgw ctl audit
    llmgw ctl audit --since 2h --subject gpu01
    llmgw ctl audit --follow
    """  # noqa: D301 - click reads \b
    filters = {"since": _text(since), "target": subject, "actor": actor}
    if follow:
        _follow(asking, filters, limit=limit)
        return
    document, entries = _page(asking, {**filters, "limit": str(limit)})
    if asking.is_json:
        asking.screen.document(document)
    else:
        _show(asking, entries)


def _follow(asking: Asking, filters: dict[str, str | None], *, limit: int) -> None:
    """Until Ctrl-C."""
    last: int | None = None
    while True:
        newer = {**filters, "limit": str(limit if last is None else _MOST), "after_id": _text(last)}
        _, entries = _page(asking, newer)
        _stream(entries, is_json=asking.is_json)
        last = max((one.entry_id for one in entries), default=last or 0)
        time.sleep(_POLL_S)


def _page(asking: Asking, params: dict[str, str | None]) -> tuple[object, Sequence[AuditEntry]]:
    """The answer, and its entries, the newest last."""
    document = asking.client.send("GET", "audit", params=params)
    found = asking.client.read(document.get("entries"), TypeAdapter(tuple[AuditEntry, ...]))
    return document, found[::-1]


def _show(asking: Asking, entries: Sequence[AuditEntry]) -> None:
    asking.screen.table(_COLUMNS, [Row(_cells(entry)) for entry in entries])
    if not entries:
        asking.screen.line("nothing of that was done or refused")


def _stream(entries: Sequence[AuditEntry], *, is_json: bool) -> None:
    """A line each, one JSON document where a program follows."""
    for entry in entries:
        if is_json:
            line = json.dumps(TypeAdapter(AuditEntry).dump_python(entry, mode="json"))
        else:
            line = "  ".join(cell for cell in _cells(entry) if cell)
        click.echo(plain.one_line(line))  # which is seen at once, also through a pipe


def _cells(entry: AuditEntry) -> tuple[str | None, ...]:
    moment = datetime.fromtimestamp(entry.at, tz=UTC)
    details = ", ".join(f"{key}={value}" for key, value in (entry.after or {}).items())
    return (
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        entry.actor if entry.origin == "cli" else f"{entry.actor} ({entry.origin})",
        entry.action,
        entry.target or None,
        entry.outcome,
        details or None,
    )


def _text(value: float | None) -> str | None:
    return None if value is None else str(value)
