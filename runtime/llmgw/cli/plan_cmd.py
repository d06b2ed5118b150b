"""``llmgw ctl plan``: what the next pass would do."""

from __future__ import annotations

import click

from llmgw.cli import plan_showing
from llmgw.cli.asking import Asking, asks


@click.command()
@asks
def plan(asking: Asking) -> None:
    """Show what the control plane's next pass would do, and why what is missing is not placed.

    The same function decides as in the pass; nothing is applied.

    \b
    llmgw ctl plan
    llmgw ctl plan --json
    """  # noqa: D301 - click reads \b
    answer = asking.client.plan()
    if asking.is_json:
        asking.screen.document(answer.document)
    else:
        plan_showing.plan(asking.screen, answer.value)
