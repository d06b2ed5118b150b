"""``llmgw unit``: the systemd unit of a server, an agent or a gateway, to be installed by hand."""

from __future__ import annotations

import click

from llmgw.serve import unit_files


@click.command()
@click.argument("name", type=click.Choice(unit_files.NAMES))
def unit(*, name: str) -> None:
    """Print a systemd unit, for /etc/systemd/system/NAME.service.

    \b
    llmgw unit llmgw-agent
    """  # noqa: D301 - click reads \b
    click.echo(unit_files.text(name), nl=False)
