"""``llmgw ctl model``: an operator's word on one model."""

from __future__ import annotations

import click

from llmgw.cli.asking import Asking, asks


@click.group()
def model() -> None:
    """Change how a model runs."""


@model.command()
@click.argument("name", metavar="MODEL")
@click.option(
    "--may-interrupt",
    is_flag=True,
    help="Where there is no room for both, stop the old replica before the new one serves.",
)
@asks
def roll(asking: Asking, *, name: str, may_interrupt: bool) -> None:
    r"""Have the replicas of MODEL follow its changed profile.

    One is replaced first. When it has served for a while (control.canary_s), the others follow,
    control.max_unavailable at a time; each old one serves until a new one does. When a new one
    fails or finds no room, all that serves stays as it is.

    \b
    Example:
      llmgw ctl model roll llama
    """
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
