"""``llmgw ctl model add``, ``remove``, ``fallbacks`` and ``describe``: one model of the catalog."""

from __future__ import annotations

from pathlib import Path

import click

from llmgw.cli import completing, model_files, outcome_showing
from llmgw.cli.asking import Asking, asks
from llmgw.cli.catalog_questions import CatalogQuestions
from llmgw.cli.client import Answer
from llmgw.domain.catalog_views import ChangeKind, Outcome

_name = click.argument("name", metavar="MODEL", shell_complete=completing.models)
dry_run = click.option(
    "--dry-run", "is_trial", is_flag=True, help="Say what would change, and change nothing."
)
no_source_check = click.option(
    "--no-source-check",
    "is_unchecked",
    is_flag=True,
    help="Do it although its weights are not found from the control plane.",
)


@click.command()
@model_files.option
@click.option("--replace", "may_replace", is_flag=True, help="In place of a stored one.")
@no_source_check
@dry_run
@asks
def add(
    asking: Asking, *, file: Path, may_replace: bool, is_unchecked: bool, is_trial: bool
) -> None:
    """Add the model of a file; it is kept in the store and placed at once.

    It is checked whole, and its source is looked for from the control plane. With --replace its
    running replicas stay as they are until 'llmgw ctl model roll' replaces them.

    \b
    Example:
      llmgw ctl model add -f llama.yaml
      llmgw ctl model add -f llama.yaml --replace --dry-run
    """  # noqa: D301 - click reads \b
    answer = CatalogQuestions(asking.client).add(
        model_files.read(file),
        may_replace=may_replace,
        has_source_check=not is_unchecked,
        is_trial=is_trial,
    )
    say(asking, answer, is_trial=is_trial)
    added = [c.name for c in answer.value.changes if c.kind is ChangeKind.ADD]
    if added and not asking.is_json and not is_trial:
        asking.screen.line(f"'llmgw ctl wait {added[0]}' waits until it serves")


@click.command()
@_name
@dry_run
@asks
def remove(asking: Asking, *, name: str, is_trial: bool) -> None:
    """Remove a stored MODEL; its replicas drain and stop.

    A model that others fall back to stays, and so does one that is declared in the settings.

    \b
    Example:
      llmgw ctl model remove llama
    """  # noqa: D301 - click reads \b
    say(asking, CatalogQuestions(asking.client).remove(name, is_trial=is_trial), is_trial=is_trial)


@click.command()
@_name
@click.argument("fallbacks", nargs=-1, metavar="[OTHER]...")
@dry_run
@asks
def fallbacks(asking: Asking, *, name: str, fallbacks: tuple[str, ...], is_trial: bool) -> None:
    """Have OTHER models answer where MODEL cannot, in this order; none takes all away.

    \b
    Example:
      llmgw ctl model fallbacks llama qwen small
    """  # noqa: D301 - click reads \b
    answer = CatalogQuestions(asking.client).fall_back(name, fallbacks, is_trial=is_trial)
    say(asking, answer, is_trial=is_trial)


@click.command()
@_name
@click.argument("text")
@dry_run
@asks
def describe(asking: Asking, *, name: str, text: str, is_trial: bool) -> None:
    """Write one line on MODEL for people who choose; an empty TEXT takes it away.

    \b
    Example:
      llmgw ctl model describe llama "for long answers"
    """  # noqa: D301 - click reads \b
    answer = CatalogQuestions(asking.client).describe(name, text, is_trial=is_trial)
    say(asking, answer, is_trial=is_trial)


def say(asking: Asking, answer: Answer[Outcome], *, is_trial: bool) -> None:
    """What has changed, or the document for programs."""
    if asking.is_json:
        asking.screen.document(answer.document)
    else:
        outcome_showing.show(asking.screen, answer.value, is_trial=is_trial)
