"""``llmgw ctl usage``: what was used, by whom, and what it cost."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Mapping, Sequence
from typing import Literal

import click
from pydantic import TypeAdapter

from llmgw.cli.asking import Asking, asks
from llmgw.cli.failures import ExitCode
from llmgw.cli.params import SINCE
from llmgw.cli.screens import Column, Row
from llmgw.domain.usage_reports import GROUPINGS, DayCheck, UsageSum
from llmgw.errors import Invalid

_MOST = 10_000
_READS_ROWS_S = 300.0
"""For a question that reads every request of its days."""

_AMOUNTS = (
    "requests",
    "failed",
    "aborted",
    "lost",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cost_micros",
)


@click.command()
@click.argument(
    "what", type=click.Choice(["report", "requests", "verify"]), default="report", required=False
)
@click.option(
    "--by", type=click.Choice(GROUPINGS), default="key", show_default=True, help="Whose sums."
)
@click.option("--since", type=SINCE, help="Not older: 24h, 30d, or a time as 2026-11-30T09:00.")
@click.option("--until", type=SINCE, help="Older than this, written alike.")
@click.option("--key", help="Only what the key of this id used.")
@click.option("--limit", type=click.IntRange(1, _MOST), default=1000, show_default=True)
@click.option(
    "--days", type=click.IntRange(1, 400), default=7, show_default=True, help="To verify."
)
@click.option("--csv", "is_csv", is_flag=True, help="Comma-separated, for a spreadsheet.")
@asks
@click.pass_context
def usage(
    ctx: click.Context,
    asking: Asking,
    *,
    what: Literal["report", "requests", "verify"],
    by: str,
    since: float | None,
    until: float | None,
    key: str | None,
    limit: int,
    days: int,
    is_csv: bool,
) -> None:
    """Show what was used: sums by key, user, team, project, org, model or day.

    REPORT is what is shown without a word. REQUESTS writes every request that is still kept, as
    CSV. VERIFY compares the requests of the last days with their sums; exit code 7 where they
    differ. Times are whole hours of UTC; money is in micro-units.

    \b
    llmgw ctl usage --by team --since 30d
    llmgw ctl usage --by day --key key-4f1c --csv
    llmgw ctl usage requests --since 24h > requests.csv
    llmgw ctl usage verify --days 30
    """  # noqa: D301 - click reads \b
    span = {"since": _text(since), "until": _text(until)}
    if what == "requests":
        _write_requests(asking, span)
    elif what == "verify":
        ctx.exit(_verify(asking, days=days))
    else:
        asked = {**span, "by": by, "key": key, "limit": str(limit)}
        _report(asking, asked, by=by, is_csv=is_csv)


def _report(asking: Asking, asked: Mapping[str, str | None], *, by: str, is_csv: bool) -> None:
    document = asking.client.send("GET", "usage", params=asked)
    if asking.is_json:
        asking.screen.document(document)
        return
    groups = asking.client.read(document.get("groups"), TypeAdapter(tuple[UsageSum, ...]))
    if is_csv:
        click.echo(_csv(groups, by=by), nl=False)
        return
    columns = (Column(by.upper(), is_whole=True), Column("NAME"), *_columns(), Column("BUDGET"))
    asking.screen.table(
        columns, [Row((*_names(one), *_cells(one), _budget(one))) for one in groups]
    )
    if not groups:
        asking.screen.line("nothing was used in that time")


def _columns() -> Sequence[Column]:
    words = ("REQUESTS", "FAILED", "ABORTED", "LOST", "PROMPT", "COMPLETION", "CACHED", "MICROS")
    return [Column(word, is_whole=True) for word in words]


def _names(one: UsageSum) -> tuple[str | None, str | None]:
    return one.group_id or None, one.name or None


def _cells(one: UsageSum) -> Sequence[str]:
    return [str(getattr(one.amounts, name)) for name in _AMOUNTS]


def _budget(one: UsageSum) -> str | None:
    return None if one.budget is None else f"{one.budget} a {one.period}"


def _csv(groups: Sequence[UsageSum], *, by: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow((by, "name", *_AMOUNTS, "budget_micros", "budget_period"))
    for one in groups:
        name = f"'{one.name}" if one.name[:1] in ("=", "+", "-", "@") else one.name
        budget = ("", "") if one.budget is None else (one.budget, one.period)
        writer.writerow((one.group_id, name, *_cells(one), *budget))
    return text.getvalue()


def _write_requests(asking: Asking, span: Mapping[str, str | None]) -> None:
    if asking.is_json:
        raise Invalid("requests are written as CSV only; leave --json out")
    for piece in asking.client.stream("usage/requests.csv", params=span, timeout_s=_READS_ROWS_S):
        click.echo(piece, nl=False)


def _verify(asking: Asking, *, days: int) -> int:
    document = asking.client.send(
        "GET", "usage/check", params={"days": str(days)}, timeout_s=_READS_ROWS_S
    )
    checks = asking.client.read(document.get("checks"), TypeAdapter(tuple[DayCheck, ...]))
    if asking.is_json:
        asking.screen.document(document)
    else:
        columns = [
            Column(word, is_whole=True)
            for word in ("DAY", "REQUESTS", "IN HOURS", "IN DAYS", "MICROS", "AGREES")
        ]
        asking.screen.table(columns, [Row(_day(one)) for one in checks])
    return ExitCode.OK if all(one.agrees for one in checks) else ExitCode.CHECK_SAID_NO


def _day(one: DayCheck) -> Sequence[str]:
    day = dt.datetime.fromtimestamp(one.day, tz=dt.UTC).date().isoformat()
    counts = (one.rows.requests, one.hours.requests, one.days.requests, one.rows.cost_micros)
    return [day, *map(str, counts), "yes" if one.agrees else "no"]


def _text(value: float | None) -> str | None:
    return None if value is None else str(value)
