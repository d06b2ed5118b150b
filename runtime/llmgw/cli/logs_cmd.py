"""``llmgw ctl logs``: the end of a log of a node, and what is added to it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

import click

from llmgw.cli import completing
from llmgw.cli.asking import Asking, asks
from llmgw.cli.screens import Column, Row
from llmgw.errors import DeadlinePassed, Unavailable

_AGENT = "agent"
_LOOK_S = 2.0


@click.command()
@click.argument("node", shell_complete=completing.nodes)
@click.option("--source", help="'agent', or the id of a shard; without it the sources are listed.")
@click.option("--lines", type=click.IntRange(1, 2000), default=200, show_default=True)
@click.option(
    "--follow", "-f", "is_followed", is_flag=True, help="Go on with what is added, until Ctrl-C."
)
@asks
def logs(asking: Asking, *, node: str, source: str | None, lines: int, is_followed: bool) -> None:
    """Show the end of a log of NODE; with --follow that of its agent unless a source is named.

    \b
    llmgw ctl logs gpu01
    llmgw ctl logs gpu01 --source agent --lines 50
    llmgw ctl logs gpu01 --source llama-9f31c2aa.0 -f
    """  # noqa: D301 - click reads \b
    if is_followed:
        _follow(asking, node, source=source or _AGENT, lines=lines)
        return
    answer = asking.client.logs(node, source=source or _AGENT, lines=lines if source else 1)
    if asking.is_json:
        asking.screen.document(answer.document)
    elif source is None:
        asking.screen.table([Column("SOURCE")], [Row((s,)) for s in answer.value.sources])
    else:
        for line in answer.value.lines:
            asking.screen.line(line)


def _follow(asking: Asking, node: str, *, source: str, lines: int) -> None:
    """Ask again and again; a node that is away for a while is waited for."""
    seen = tuple(asking.client.logs(node, source=source, lines=lines).value.lines)
    _write(asking, seen)
    try:
        while True:
            time.sleep(_LOOK_S)
            try:
                found = tuple(asking.client.logs(node, source=source, lines=lines).value.lines)
            except (Unavailable, DeadlinePassed) as error:
                click.echo(f"llmgw: {error.message}", err=True)
                continue
            _write(asking, added(seen, found))
            seen = found
    except KeyboardInterrupt:
        return  # that is how it ends


def added(seen: Sequence[str], found: Sequence[str]) -> Sequence[str]:
    """The lines at the end of ``found`` that were not at the end of what was ``seen``."""
    for same in range(min(len(seen), len(found)), 0, -1):
        if tuple(seen[-same:]) == tuple(found[:same]):
            return found[same:]
    return found


def _write(asking: Asking, lines: Sequence[str]) -> None:
    """Each line at once; as JSON one string a line."""
    for line in lines:
        if asking.is_json:
            click.echo(json.dumps(line, ensure_ascii=False))
        else:
            asking.screen.line(line)
    sys.stdout.flush()
