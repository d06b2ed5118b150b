"""``llmgw ctl model show``: one model as it was written, and how much of it runs."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from llmgw.cli import completing, figures, model_files, models_cmd
from llmgw.cli.asking import Asking, asks
from llmgw.cli.catalog_questions import CatalogQuestions
from llmgw.domain.catalog_views import EntryView
from llmgw.domain.views import ModelView
from llmgw.kit import units


@click.command()
@click.argument("name", metavar="MODEL", shell_complete=completing.models)
@asks
def show(asking: Asking, *, name: str) -> None:
    """Show MODEL as it was written, where it comes from, and how much of it runs.

    \b
    Example:
      llmgw ctl model show llama
    """  # noqa: D301 - click reads \b
    entry, runs = CatalogQuestions(asking.client).entry(name), asking.client.model(name)
    if asking.is_json:
        asking.screen.document({**runs.document, **entry.document})
        return
    asking.screen.facts(_facts(entry.value, runs.value))
    for remark in models_cmd.remarks(
        runs.value, asking.client.replicas(model=runs.value.name).value
    ):
        asking.screen.line(remark)
    asking.screen.line()
    for line in model_files.written(dict(entry.value.definition)).splitlines():
        asking.screen.line(line)


def _facts(entry: EntryView, runs: ModelView) -> list[tuple[str, str | None]]:
    facts: list[tuple[str, str | None]] = [
        ("MODEL", entry.name),
        ("STATUS", f"{runs.status}, {runs.ready} of {runs.want} ready"),
        ("ORIGIN", _origin(entry)),
        ("SCALING", _scaling(entry)),
    ]
    facts += [(f"PROFILE {name}", version) for name, version in entry.fingerprints.items()]
    if runs.stale:
        facts.append(("STALE", f"{runs.stale} replica(s) of an older profile"))
    return facts


def _origin(entry: EntryView) -> str:
    if entry.created_at is None:
        return f"{entry.origin}, in the settings of the server"
    changed = f", changed {_day(entry.updated_at)}" if entry.updated_at != entry.created_at else ""
    return f"{entry.origin}, added {_day(entry.created_at)} by {entry.actor}{changed}"


def _day(at: float | None) -> str:
    return "-" if at is None else f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%d %H:%M:%SZ}"


def _scaling(entry: EntryView) -> str:
    scaling = entry.scaling
    if scaling is None or scaling.is_off:
        return "off"
    if scaling.is_on_demand:
        return f"on demand, stopped after {units.shown_seconds(scaling.idle_timeout_s)} unused"
    return figures.listed([f"{scaling.min} replica(s), at most {scaling.max}"])
