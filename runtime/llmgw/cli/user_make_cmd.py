"""``llmgw users create`` and ``reset-password``: accounts, and passwords that are shown once."""

from __future__ import annotations

import sys

import click

from llmgw.accounts.people_desk import Newcomer
from llmgw.cli import users_showing
from llmgw.cli.store_options import Desk, on_store
from llmgw.domain.tenancy import DEFAULT
from llmgw.errors import Invalid

_stdin = click.option(
    "--password-stdin",
    "is_given",
    is_flag=True,
    help="Read the password from standard input; it is made up otherwise.",
)


@click.command()
@click.argument("email")
@click.option("--name", default="", help="How the person is called.  [default: the address]")
@click.option(
    "--project", default=DEFAULT, help="Its project: id, name or path.  [default: the first one]"
)
@click.option("--admin", "is_admin", is_flag=True, help="Make it an administrator.")
@click.option(
    "--if-absent", "is_once", is_flag=True, help="Do nothing where the address has an account."
)
@_stdin
@on_store()
async def create(
    desk: Desk,
    *,
    email: str,
    name: str,
    project: str,
    is_admin: bool,
    is_once: bool,
    is_given: bool,
) -> None:
    """Make an account for EMAIL. Its password is shown this once.

    \b
    llmgw users create ann@example.org
    llmgw users create bob@example.org --name Bob --project acme/research/chat
    """  # noqa: D301 - click reads \b
    tree = await desk.accounts.directory.tree()
    wanted = Newcomer(
        email=email,
        name=name,
        project_id=tree.project(project).project_id,
        is_admin=is_admin,
        password=_read() if is_given else None,
    )
    known = await desk.accounts.store.people.by_email(email.strip().lower()) if is_once else None
    if known is not None:
        users_showing.show(desk, known, tree=tree, is_changed=False)
        return
    issued = await desk.accounts.people.desk.create(wanted, actor=desk.actor)
    users_showing.show(desk, issued.user, tree=tree, password=issued.password)


@click.command("reset-password")
@click.argument("person")
@_stdin
@on_store()
async def reset_password(desk: Desk, *, person: str, is_given: bool) -> None:
    """Give PERSON a new password, shown this once, and sign it out everywhere.

    Its keys work on.

    \b
    llmgw users reset-password ann@example.org
    """  # noqa: D301 - click reads \b
    password = _read() if is_given else None
    issued = await desk.accounts.people.desk.reset_password(
        person, password=password, actor=desk.actor
    )
    tree = await desk.accounts.directory.tree()
    users_showing.show(desk, issued.user, tree=tree, password=issued.password)


def _read() -> str:
    lines = sys.stdin.read().splitlines()
    if len(lines) != 1:
        raise Invalid("standard input must hold the password on one line, and nothing else")
    return lines[0]
