"""``llmgw ctl brake``: the brake on a mass loss, and an operator's word that it is none."""

from __future__ import annotations

import click
from pydantic import TypeAdapter

from llmgw.cli import figures
from llmgw.cli.asking import Asking, asks
from llmgw.domain.status_views import BrakeView

_SHAPE: TypeAdapter[BrakeView | None] = TypeAdapter(BrakeView | None)


@click.command()
@click.option(
    "--lift",
    "is_lifted",
    is_flag=True,
    help="Take it off: nodes that are silent now are lost when their time is over.",
)
@asks
def brake(asking: Asking, *, is_lifted: bool) -> None:
    """Show whether many nodes fell silent at once, so that none is given up, or end that.

    \b
    llmgw ctl brake
    llmgw ctl brake --lift
    """  # noqa: D301 - click reads \b
    if is_lifted:
        document = asking.client.send("POST", "brake/lift")
    else:
        document = asking.client.send("GET", "brake")
    if asking.is_json:
        asking.screen.document(document)
    elif is_lifted:
        was_on = document.get("was_on")
        asking.screen.line("the brake is lifted" if was_on else "the brake was not on")
    else:
        _show(asking, asking.client.read(document.get("brake"), _SHAPE))


def _show(asking: Asking, seen: BrakeView | None) -> None:
    if seen is None:
        asking.screen.line("the brake is off")
        return
    asking.screen.line(
        f"the brake is on: {len(seen.node_ids)} nodes fell silent at once "
        f"{figures.age(seen.since_s)} ago; none is given up and nothing is placed, for "
        f"{figures.age(seen.ends_in_s)} at most"
    )
    asking.screen.line(f"silent: {figures.listed(seen.node_ids)}")
    asking.screen.line("where that is no fault of the network: 'llmgw ctl brake --lift'")
