"""``llmgw users list``: who has an account, and who waits for one."""

from __future__ import annotations

import click

from llmgw.cli import keys_showing, users_showing
from llmgw.cli.screens import Column, Row
from llmgw.cli.store_options import Desk, on_store
from llmgw.domain.people import UserState

_COLUMNS = (
    Column("EMAIL", is_whole=True),
    Column("NAME"),
    Column("STATE", is_state=True),
    Column("ROLE"),
    Column("PROJECT"),
    Column("SIGNED UP"),
    Column("LAST LOGIN"),
    Column("ID", is_whole=True),
)


@click.command("list")
@click.option("--pending", "is_pending", is_flag=True, help="Only who waits for approval.")
@on_store()
async def list_users(desk: Desk, *, is_pending: bool) -> None:
    """Show everybody who has an account, or waits for one.

    \b
    llmgw users list
    llmgw users list --pending
    """  # noqa: D301 - click reads \b
    state = UserState.PENDING if is_pending else None
    found = await desk.accounts.people.desk.all(state=state)
    tree = await desk.accounts.directory.tree()
    if desk.is_json:
        desk.screen.document({"users": [users_showing.document(one, tree=tree) for one in found]})
        return
    rows = [
        Row(
            (
                user.email,
                user.name,
                str(user.state),
                "administrator" if user.is_admin else "",
                keys_showing.project_path(tree, user.project_id) if user.project_id else None,
                keys_showing.moment(user.created_at),
                keys_showing.moment(user.last_login_at),
                user.user_id,
            )
        )
        for user in found
    ]
    desk.screen.table(_COLUMNS, rows)
    if not rows:
        desk.screen.line("nobody waits" if is_pending else "nobody has an account yet")
