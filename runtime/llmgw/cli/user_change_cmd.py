"""``llmgw users approve``, ``suspend``, ``restore``, ``promote`` and ``demote``."""

from __future__ import annotations

import click

from llmgw.cli import users_showing
from llmgw.cli.store_options import Desk, on_store
from llmgw.domain.people import User
from llmgw.domain.tenancy import DEFAULT


@click.command()
@click.argument("person")
@click.option(
    "--project", default=DEFAULT, help="Its project: id, name or path.  [default: the first one]"
)
@on_store()
async def approve(desk: Desk, *, person: str, project: str) -> None:
    """Let PERSON in, who has asked for an account, and put it into a project.

    \b
    llmgw users approve ann@example.org
    llmgw users approve ann@example.org --project acme/research/chat
    """  # noqa: D301 - click reads \b
    project_id = (await desk.accounts.directory.tree()).project(project).project_id
    people = desk.accounts.people.desk
    await _shown(desk, await people.approve(person, project_id=project_id, actor=desk.actor))


@click.command()
@click.argument("person")
@on_store()
async def suspend(desk: Desk, *, person: str) -> None:
    """Shut PERSON out and sign it out everywhere; its keys work on until they are revoked.

    \b
    llmgw users suspend ann@example.org
    """  # noqa: D301 - click reads \b
    people = desk.accounts.people.desk
    await _shown(desk, await people.suspend(person, actor=desk.actor))


@click.command()
@click.argument("person")
@on_store()
async def restore(desk: Desk, *, person: str) -> None:
    """Let PERSON in again, who was suspended; it has to sign in anew.

    \b
    llmgw users restore ann@example.org
    """  # noqa: D301 - click reads \b
    people = desk.accounts.people.desk
    await _shown(desk, await people.restore(person, actor=desk.actor))


@click.command()
@click.argument("person")
@on_store()
async def promote(desk: Desk, *, person: str) -> None:
    """Make PERSON an administrator.

    \b
    llmgw users promote ann@example.org
    """  # noqa: D301 - click reads \b
    people = desk.accounts.people.desk
    await _shown(desk, await people.set_admin(person, is_admin=True, actor=desk.actor))


@click.command()
@click.argument("person")
@on_store()
async def demote(desk: Desk, *, person: str) -> None:
    """Make PERSON no administrator any more.

    \b
    llmgw users demote ann@example.org
    """  # noqa: D301 - click reads \b
    people = desk.accounts.people.desk
    await _shown(desk, await people.set_admin(person, is_admin=False, actor=desk.actor))


async def _shown(desk: Desk, user: User) -> None:
    users_showing.show(desk, user, tree=await desk.accounts.directory.tree())
