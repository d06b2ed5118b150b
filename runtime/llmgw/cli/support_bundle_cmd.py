"""``llmgw ctl support-bundle``: what somebody who helps has to see, in one file."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from llmgw.cli import figures
from llmgw.cli.asking import Asking, asks
from llmgw.errors import AlreadyHeld

_MODE = 0o600


@click.command("support-bundle")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write.  [default: llmgw-support-TIME.tar.gz here]",
)
@click.option(
    "--passes",
    type=click.IntRange(0, 10_000),
    default=500,
    show_default=True,
    help="How many of the last passes of the journal.",
)
@asks
def support_bundle(asking: Asking, *, out: Path | None, passes: int) -> None:
    """Write settings, fleet and the journal of the last passes into a file, to be handed on.

    Secrets, addresses and what engines printed are taken out; names of nodes and models stay. The
    journal in it replays as the real one does.

    \b
    llmgw ctl support-bundle
    llmgw ctl support-bundle --out /tmp/for-support.tar.gz --passes 2000
    """  # noqa: D301 - click reads \b
    file = out or Path(f"llmgw-support-{datetime.now(tz=UTC):%Y%m%dT%H%M%SZ}.tar.gz")
    content = asking.client.support_bundle(passes=passes)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    except FileExistsError as error:
        raise AlreadyHeld(f"{file} is there already; name another file with --out") from error
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
    if asking.is_json:
        asking.screen.document({"file": str(file), "bytes": len(content)})
    else:
        asking.screen.line(f"{file} ({figures.size(len(content))})")
