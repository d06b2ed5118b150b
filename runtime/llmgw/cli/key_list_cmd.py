"""``llmgw keys list`` and ``show``: which keys there are, and what one may use."""

from __future__ import annotations

from collections.abc import Mapping

import click

from llmgw.cli import figures, key_make_cmd, keys_showing
from llmgw.cli.screens import Column, Row
from llmgw.cli.store_options import Desk, on_store
from llmgw.domain.api_keys import ApiKey, KeyState
from llmgw.domain.tenancy import Tree

_COLUMNS = (
    Column("KEY", is_whole=True),
    Column("ID", is_whole=True),
    Column("NAME"),
    Column("PROJECT"),
    Column("OWNER"),
    Column("STATE", is_state=True),
    Column("EXPIRES", is_whole=True),
    Column("USED", is_whole=True),
)
_LEVELS = (Column("LEVEL", is_whole=True), Column("LIMITS"))


@click.command("list")
@click.option("--project", help="Only those of this project: id, name or path.")
@click.option("--owner", metavar="PERSON", help="Only those of this person: an address or id.")
@click.option("--all", "is_all", is_flag=True, help="Those that open nothing any more as well.")
@on_store()
async def list_keys(desk: Desk, *, project: str | None, owner: str | None, is_all: bool) -> None:
    """Show keys by their begin, the oldest first; what they open is shown nowhere.

    \b
    llmgw keys list
    llmgw keys list --project research --all
    """  # noqa: D301 - click reads \b
    tree, now = await desk.accounts.directory.tree(), desk.accounts.clock.wall()
    found = await desk.accounts.keys.all(
        project_id=tree.project(project).project_id if project else "",
        user_id=await key_make_cmd.user_id(desk, owner) or "",
    )
    shown = [key for key in found if is_all or key.state(now) is KeyState.ACTIVE]
    if desk.is_json:
        keys = [keys_showing.key_document(key, now=now, tree=tree) for key in shown]
        desk.screen.document({"keys": keys})
        return
    owners = {user.user_id: user.email for user in await desk.accounts.store.people.all()}
    rows = [Row(_cells(key, now=now, tree=tree, owners=owners)) for key in shown]
    desk.screen.table(_COLUMNS, rows)
    if len(shown) < len(found):
        desk.screen.line(f"{len(found) - len(shown)} more open nothing any more: --all shows them")


@click.command()
@click.argument("key", metavar="KEY")
@on_store()
async def show(desk: Desk, *, key: str) -> None:
    """Show KEY, named by its id or its begin, and the limits of every level above it.

    \b
    llmgw keys show sk-AbCdEfGh
    """  # noqa: D301 - click reads \b
    tree, now = await desk.accounts.directory.tree(), desk.accounts.clock.wall()
    found = await desk.accounts.keys.find(key)
    chain = await desk.accounts.directory.chain(found.key_id)
    if desk.is_json:
        document = keys_showing.key_document(found, now=now, tree=tree)
        levels = [keys_showing.level_document(level) for level in chain.levels]
        desk.screen.document({**document, "levels": levels})
        return
    desk.screen.facts(
        [
            ("KEY", f"{found.prefix}…"),
            ("ID", found.key_id),
            ("NAME", found.name),
            ("PROJECT", keys_showing.project_path(tree, found.project_id)),
            ("OWNER", found.user_id),
            ("BAND", found.band),
            ("STATE", str(found.state(now))),
            ("CREATED", f"{keys_showing.moment(found.created_at)} by {found.created_by}"),
            ("EXPIRES", keys_showing.moment(found.expires_at)),
            ("USED", keys_showing.moment(found.last_used_at)),
        ]
    )
    if found.previous_until is not None and found.previous_until > now:
        desk.screen.line(
            f"its secret before opens it until {keys_showing.moment(found.previous_until)}"
        )
    desk.screen.line()
    rows = [Row((level.counter, keys_showing.limits_line(level))) for level in chain.levels]
    desk.screen.table(_LEVELS, rows)


def _cells(
    key: ApiKey, *, now: float, tree: Tree, owners: Mapping[str, str]
) -> tuple[str | None, ...]:
    used = key.last_used_at
    return (
        f"{key.prefix}…",
        key.key_id,
        key.name,
        keys_showing.project_path(tree, key.project_id),
        owners.get(key.user_id, key.user_id) if key.user_id else None,
        str(key.state(now)),
        keys_showing.moment(key.expires_at),
        None if used is None else f"{figures.age(now - used)} ago",
    )
