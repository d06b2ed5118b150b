"""``llmgw keys rotate``, ``revoke`` and ``move``: what becomes of a key that there is."""

from __future__ import annotations

import click

from llmgw.accounts.keys import OVERLAP_S
from llmgw.accounts.sealing import CLAIM_S
from llmgw.cli import key_make_cmd, keys_showing
from llmgw.cli.params import Duration
from llmgw.cli.store_options import Desk, on_store
from llmgw.kit import units


@click.command()
@click.argument("key", metavar="KEY")
@click.option(
    "--overlap",
    "overlap_s",
    type=Duration(),
    default=OVERLAP_S,
    show_default=units.shown_seconds(OVERLAP_S),
    help="How long the secret before is good too; 0s ends it now.",
)
@click.option("--claim", "is_link", is_flag=True, help="Print a link instead of the key.")
@click.option("--base-url", metavar="URL", help="Where people reach the gateway, for the link.")
@on_store()
async def rotate(
    desk: Desk, *, key: str, overlap_s: float, is_link: bool, base_url: str | None
) -> None:
    """Give KEY another secret; its id, its limits and what it used stay.

    \b
    llmgw keys rotate sk-AbCdEfGh
    llmgw keys rotate sk-AbCdEfGh --overlap 0s
    """  # noqa: D301 - click reads \b
    base = key_make_cmd.checked_base_url(base_url, is_link=is_link)
    keys = desk.accounts.keys
    found = await keys.find(key)
    made = await keys.rotate(
        found.key_id,
        actor=desk.actor,
        overlap_s=overlap_s,
        claim_s=CLAIM_S if is_link else None,
    )
    tree = await desk.accounts.directory.tree()
    key_make_cmd.show_made(desk, made, tree=tree, base_url=base)
    if not desk.is_json and overlap_s:
        until = keys_showing.moment(made.key.previous_until)
        desk.screen.line(f"The secret before opens it until {until}.")


@click.command()
@click.argument("key", metavar="KEY")
@on_store()
async def revoke(desk: Desk, *, key: str) -> None:
    """Let KEY open nothing any more; what it used stays in the accounts.

    \b
    llmgw keys revoke sk-AbCdEfGh
    """  # noqa: D301 - click reads \b
    found = await desk.accounts.keys.find(key)
    revoked = await desk.accounts.keys.revoke(found.key_id, actor=desk.actor)
    when = keys_showing.moment(revoked.revoked_at)
    if desk.is_json:
        desk.screen.document({"id": revoked.key_id, "revoked_at": revoked.revoked_at})
    elif found.revoked_at is None:
        desk.screen.line(f"revoked {revoked.key_id}; gateways that know it hear of it in a moment")
    else:
        desk.screen.line(f"{revoked.key_id} was revoked already, at {when}")


@click.command()
@click.argument("key", metavar="KEY")
@click.option("--project", required=True, help="Where to: id, name or path of a project.")
@on_store()
async def move(desk: Desk, *, key: str, project: str) -> None:
    """Put KEY into another project, below the limits there; what it used goes along.

    \b
    llmgw keys move sk-AbCdEfGh --project acme/research/batch
    """  # noqa: D301 - click reads \b
    tree = await desk.accounts.directory.tree()
    target = tree.project(project)
    found = await desk.accounts.keys.find(key)
    moved = await desk.accounts.keys.move(
        found.key_id, project_id=target.project_id, actor=desk.actor
    )
    if desk.is_json:
        desk.screen.document(
            keys_showing.key_document(moved, now=desk.accounts.clock.wall(), tree=tree)
        )
    else:
        desk.screen.line(f"{moved.key_id} is in {tree.path(target)} now")
