"""``llmgw keys move-store``: a SQLite store into PostgreSQL."""

from __future__ import annotations

import click

from llmgw.cli import plain, screens
from llmgw.config import sources
from llmgw.domain.copies import Copied
from llmgw.serve import loops, store_moving


@click.command("move-store")
@click.option(
    "--from", "source", metavar="FILE", required=True, help="The SQLite file, or @/file naming it."
)
@click.option(
    "--to",
    "target",
    metavar="ADDRESS",
    required=True,
    help="An empty PostgreSQL database: postgresql://…, or @/file that holds it.",
)
@click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")
def move_store(*, source: str, target: str, is_json: bool) -> None:
    """Copy everything that a SQLite store keeps into PostgreSQL, and compare both.

    The server must be stopped; gateways serve on. The file is only read. A move that was cut off is
    finished by running it again; until then no server uses the database.

    \b
    llmgw keys move-store --from /var/lib/llmgw/store.db --to @/etc/llmgw/secrets/store
    """  # noqa: D301 - click reads \b
    environ = sources.environment()

    def tell(copied: Copied) -> None:
        if not is_json:
            state = "were there already" if copied.was_there else "copied"
            click.echo(plain.one_line(f"{copied.table}: {copied.rows} rows {state}"))

    done = loops.run(store_moving.move(source, target, environ=environ, on_table=tell))
    total = sum(one.rows for one in done)
    if is_json:
        tables = [{"table": one.table, "rows": one.rows} for one in done]
        screens.standard().document({"rows": total, "tables": tables})
        return
    click.echo(f"{total} rows are in both, equal; put the new address into auth.store and start")
