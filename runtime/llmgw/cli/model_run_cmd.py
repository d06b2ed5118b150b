"""``llmgw ctl model roll`` and ``retry``: an operator's word on how a model runs."""

from __future__ import annotations

import click

from llmgw.cli import completing
from llmgw.cli.asking import Asking, asks
from llmgw.cli.catalog_questions import CatalogQuestions


@click.command()
@click.argument("name", metavar="MODEL", shell_complete=completing.models)
@click.option(
    "--may-interrupt",
    is_flag=True,
    help="Where there is no room for both, stop the old replica before the new one serves.",
)
@asks
def roll(asking: Asking, *, name: str, may_interrupt: bool) -> None:
    """Have the replicas of MODEL follow its changed profile.

    One is replaced first. When it has served for a while (control.canary_s), the others follow,
    control.max_unavailable at a time; each old one serves until a new one does. When a new one
    fails or finds no room, all that serves stays as it is.

    \b
    Example:
      llmgw ctl model roll llama
    """  # noqa: D301 - click reads \b
    answer = asking.client.roll(name, may_interrupt=may_interrupt)
    if asking.is_json:
        asking.screen.document(answer.document)
        return
    view = answer.value
    if not view.stale:
        asking.screen.line(f"all replicas of {view.name} are of the present profile")
        return
    asking.screen.line(f"{view.name}: {view.roll}")
    asking.screen.line("'llmgw ctl models' says how far it is")


@click.command()
@click.argument("name", metavar="MODEL", shell_complete=completing.models)
@asks
def retry(asking: Asking, *, name: str) -> None:
    """Start MODEL, which failed, without waiting longer.

    After a failure the control plane waits, longer each time; say so when you have mended what
    made it fail.

    \b
    Example:
      llmgw ctl model retry llama
    """  # noqa: D301 - click reads \b
    answer = CatalogQuestions(asking.client).retry(name)
    if asking.is_json:
        asking.screen.document(answer.document)
        return
    asking.screen.line(f"{answer.value.name} is {answer.value.status}")
    asking.screen.line(f"'llmgw ctl wait {answer.value.name}' shows its progress")
