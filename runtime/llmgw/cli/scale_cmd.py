"""``llmgw ctl scale``: how many replicas of a model run."""

from __future__ import annotations

import click

from llmgw.cli import completing, model_change_cmd
from llmgw.cli.asking import Asking, asks
from llmgw.cli.catalog_questions import CatalogQuestions
from llmgw.domain.catalog_views import ScalingWish
from llmgw.kit import units


@click.command()
@click.argument("name", metavar="MODEL", shell_complete=completing.models)
@click.option("--min", "least", type=click.IntRange(0), required=True, help="Replicas that run.")
@click.option(
    "--max",
    "most",
    type=click.IntRange(0),
    help="With --min 0: 1 loads it when somebody asks, 0 is off.  [default: --min]",
)
@click.option(
    "--idle-timeout",
    metavar="DURATION",
    help="When one that was loaded on demand stops, such as 30m.  [default: as before]",
)
@model_change_cmd.dry_run
@asks
def scale(
    asking: Asking,
    *,
    name: str,
    least: int,
    most: int | None,
    idle_timeout: str | None,
    is_trial: bool,
) -> None:
    """Change how many replicas of a stored MODEL run, and nothing else of it.

    Exactly --min run; --max starts no more of them under load.

    \b
    Example:
      llmgw ctl scale llama --min 2
      llmgw ctl scale llama --min 0 --max 1 --idle-timeout 45m
    """  # noqa: D301 - click reads \b
    wish = ScalingWish(least, max=most, idle_timeout=idle_timeout)
    answer = CatalogQuestions(asking.client).scale(name, wish, is_trial=is_trial)
    model_change_cmd.say(asking, answer, is_trial=is_trial)
    entry = answer.value.entry
    if asking.is_json or entry is None or entry.scaling is None:
        return
    scaling = entry.scaling
    asking.screen.line(
        f"{entry.name}: min {scaling.min}, max {scaling.max}, "
        f"idle_timeout {units.shown_seconds(scaling.idle_timeout_s)}"
    )
