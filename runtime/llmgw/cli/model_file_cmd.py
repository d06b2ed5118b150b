"""``llmgw ctl model export``, ``diff`` and ``apply``: the whole catalog as one file."""

from __future__ import annotations

from pathlib import Path

import click

from llmgw.cli import model_change_cmd, model_files
from llmgw.cli.asking import Asking, asks
from llmgw.cli.catalog_questions import CatalogQuestions
from llmgw.cli.failures import ExitCode

_prune = click.option(
    "--prune", "may_remove", is_flag=True, help="Remove stored models that the file does not have."
)


@click.command()
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@asks
def export(asking: Asking, *, out: Path | None) -> None:
    """Write the whole catalog as YAML, each model as somebody wrote it.

    Values of the environment are in it, secrets among them: a file is written for you alone.

    \b
    Example:
      llmgw ctl model export --out catalog.yaml
    """  # noqa: D301 - click reads \b
    answer = CatalogQuestions(asking.client).catalog()
    if asking.is_json:
        asking.screen.document(answer.document)
        return
    text = model_files.exported(answer.value)
    if out is None:
        click.echo(text, nl=False)
        return
    model_files.write(out, text)
    asking.screen.line(f"{out}: {len(answer.value.entries)} model(s)")


@click.command()
@model_files.option
@_prune
@asks
@click.pass_context
def diff(ctx: click.Context, asking: Asking, *, file: Path, may_remove: bool) -> None:
    """Show what 'llmgw ctl model apply' would change; nothing is changed.

    Ends with 7 when there are differences.

    \b
    Example:
      llmgw ctl model diff -f catalog.yaml
      llmgw ctl model diff -f catalog.yaml --prune
    """  # noqa: D301 - click reads \b
    answer = CatalogQuestions(asking.client).apply(
        model_files.read(file), may_remove=may_remove, has_source_check=False, is_trial=True
    )
    model_change_cmd.say(asking, answer, is_trial=True)
    if answer.value.changes:
        ctx.exit(ExitCode.CHECK_SAID_NO)


@click.command()
@model_files.option
@_prune
@model_change_cmd.no_source_check
@model_change_cmd.dry_run
@asks
def apply(
    asking: Asking, *, file: Path, may_remove: bool, is_unchecked: bool, is_trial: bool
) -> None:
    """Make the stored models those of a file, in one step; when one is wrong, none is changed.

    Declared models may be in the file as they are. Stored ones that it does not have stay, but for
    --prune.

    \b
    Example:
      llmgw ctl model apply -f catalog.yaml --dry-run
      llmgw ctl model apply -f catalog.yaml --prune
    """  # noqa: D301 - click reads \b
    answer = CatalogQuestions(asking.client).apply(
        model_files.read(file),
        may_remove=may_remove,
        has_source_check=not is_unchecked,
        is_trial=is_trial,
    )
    model_change_cmd.say(asking, answer, is_trial=is_trial)
