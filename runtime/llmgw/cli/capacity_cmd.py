"""``llmgw ctl capacity``: what ways to run models were measured to carry."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import click
from pydantic import TypeAdapter

from llmgw.cli import completing
from llmgw.cli.asking import Asking, asks
from llmgw.cli.screens import Column, Row
from llmgw.domain.stored import Capacity

_SHAPE = TypeAdapter(tuple[Capacity, ...])
_COLUMNS = (
    Column("MODEL", is_whole=True),
    Column("PROFILE", is_whole=True),
    Column("AT ONCE"),
    Column("TOKENS/S"),
    Column("REQ/S"),
    Column("PROMISES"),
    Column("MEASURED"),
)


@click.command()
@click.option("--model", shell_complete=completing.models, help="Only profiles of this model.")
@asks
def capacity(asking: Asking, *, model: str | None) -> None:
    """List how many requests at once each measured profile carried, and under which promises.

    \b
    llmgw ctl capacity
    llmgw ctl capacity --model llama --json
    """  # noqa: D301 - click reads \b
    document = asking.client.send("GET", "capacity", params={"model": model})
    if asking.is_json:
        asking.screen.document(document)
        return
    found = asking.client.read(document.get("capacities"), _SHAPE)
    asking.screen.table(_COLUMNS, [_row(one) for one in found])
    if not found:
        asking.screen.line("nothing is measured yet: 'llmgw ctl bench REPLICA --save' does it")


def _row(measured: Capacity) -> Row:
    result = measured.result
    at = datetime.fromtimestamp(measured.measured_at, tz=UTC)
    return Row(
        (
            measured.model,
            measured.profile,
            _figure(result, "concurrency", "{:.0f}"),
            _figure(result, "tokens_per_s", "{:.0f}"),
            _figure(result, "requests_per_s", "{:.1f}"),
            _promises(measured.slo),
            at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
    )


def _promises(slo: Mapping[str, object]) -> str:
    ttft, tpot = _figure(slo, "ttft_p95_s", "{:g} s"), _figure(slo, "tpot_p95_s", "{:g} s")
    return f"TTFT {ttft or '-'}, TPOT {tpot or '-'}"


def _figure(found: Mapping[str, object], name: str, form: str) -> str | None:
    value = found.get(name)
    return form.format(value) if isinstance(value, (int, float)) else None
