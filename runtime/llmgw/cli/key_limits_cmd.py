"""``llmgw keys limits``: what an organisation, a team, a project or a key may use."""

from __future__ import annotations

from typing import Any, get_args

import click

from llmgw.cli import key_params, keys_showing
from llmgw.cli.limit_options import limit_options
from llmgw.cli.store_options import Desk, on_store
from llmgw.domain.principals import Scope


@click.command()
@click.option("--scope", type=click.Choice(get_args(Scope)), required=True, help="What is limited.")
@click.option("--id", "reference", required=True, help="Which: an id, a name or a path.")
@limit_options
@on_store()
async def limits(desk: Desk, *, scope: Scope, reference: str, **given: Any) -> None:
    """Set limits, or show them where none is given; the word none takes one away.

    All keys below a place use up its limits together, and each level must let a request in. A rate
    of 0 is refused: an empty list of models (--models '') closes a place.

    \b
    llmgw keys limits --scope team --id research --rpm 600 --budget 50000000 --period month
    llmgw keys limits --scope project --id chat --models llama,embed
    llmgw keys limits --scope key --id sk-AbCdEfGh --rpm none
    """  # noqa: D301 - click reads \b
    if scope == "key":
        reference = (await desk.accounts.keys.find(reference)).key_id
    directory, changes = desk.accounts.directory, key_params.changes(**given)
    if changes:
        level = await directory.limit(scope, reference, changes, actor=desk.actor)
    else:
        level = await directory.level(scope, reference)
    if desk.is_json:
        desk.screen.document(keys_showing.level_document(level))
    else:
        desk.screen.line(f"{level.counter}: {keys_showing.limits_line(level)}")
