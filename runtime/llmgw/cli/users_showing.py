"""How the commands about people show a person."""

from __future__ import annotations

from llmgw.cli import keys_showing
from llmgw.cli.store_options import Desk
from llmgw.domain.people import User
from llmgw.domain.tenancy import Tree


def document(user: User, *, tree: Tree) -> dict[str, object]:
    """A person as programs read it; never its password."""
    return {
        "id": user.user_id,
        "email": user.email,
        "name": user.name,
        "state": str(user.state),
        "admin": user.is_admin,
        "project_id": user.project_id or None,
        "project": keys_showing.project_path(tree, user.project_id) if user.project_id else None,
        "created_at": user.created_at,
        "last_login_at": user.last_login_at,
        "approved_by": user.approved_by or None,
        "signs_in_at": user.issuer or None,
    }


def show(
    desk: Desk, user: User, *, tree: Tree, password: str | None = None, is_changed: bool = True
) -> None:
    """A person, and a password that was made up: nobody can be told it again."""
    found = document(user, tree=tree)
    if desk.is_json:
        issued = {"password": password} if password else {}
        desk.screen.document({**found, "changed": is_changed, **issued})
        return
    facts: list[tuple[str, str | None]] = [("PASSWORD", password)] if password else []
    role = "administrator" if user.is_admin else None
    facts += [("EMAIL", user.email), ("ID", user.user_id), ("STATE", str(user.state))]
    facts += [("PROJECT", str(found["project"]))] if user.project_id else []
    facts += [("ROLE", role)] if role else []
    desk.screen.facts(facts)
    if password:
        desk.screen.line()
        desk.screen.line("The password is shown this once; its owner can change it on /profile.")
