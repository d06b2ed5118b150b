"""The first administrator of a store, and the first project: made once, left alone afterwards."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw.accounts.people_desk import Newcomer
from llmgw.config.settings import ServerSettings
from llmgw.domain import people as rules
from llmgw.domain.actors import Actor
from llmgw.domain.tenancy import DEFAULT
from llmgw.errors import Conflict
from llmgw.serve import accounts
from llmgw.serve.accounts import Accounts
from llmgw.serve.founding.administrator import FirstAdmin


async def make(
    settings: ServerSettings, *, environ: Mapping[str, str], email: str, actor: Actor
) -> FirstAdmin:
    """See that there is a first project, and this administrator with an account in it.

    ``NotAnEmail``, ``NoStore``; ``Conflict`` where somebody of that address is no administrator.
    """
    address = rules.normalise_email(email)
    async with accounts.opened(settings, environ=environ, may_create=True) as opened:
        await _see_to_project(opened, actor=actor)
        known = await opened.store.people.by_email(address)
        if known is not None:
            if not known.is_admin:
                raise Conflict(
                    f"{address} has an account and is no administrator: "
                    f"'llmgw users promote {address}' makes it one"
                )
            return FirstAdmin(address)
        wanted = Newcomer(email=address, name=address, project_id=DEFAULT, is_admin=True)
        issued = await opened.people.desk.create(wanted, actor=actor)
        return FirstAdmin(address, password=issued.password)


async def _see_to_project(opened: Accounts, *, actor: Actor) -> None:
    tree = await opened.directory.tree()
    if not any(project.project_id == DEFAULT for project in tree.projects):
        await opened.directory.found(org=DEFAULT, team=DEFAULT, project=DEFAULT, actor=actor)
