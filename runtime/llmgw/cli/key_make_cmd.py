"""``llmgw keys create``: a key that is shown once, or a link by which its owner fetches it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import click

from llmgw.accounts.keys import KeyWish, MadeKey
from llmgw.accounts.sealing import CLAIM_S
from llmgw.cli import key_params, keys_showing
from llmgw.cli.key_params import UNTIL
from llmgw.cli.limit_options import limit_options
from llmgw.cli.params import Duration
from llmgw.cli.store_options import Desk, on_store
from llmgw.domain.tenancy import DEFAULT, Tree
from llmgw.errors import Invalid, Unknown
from llmgw.kit import units

_AT_LEAST_S = 60.0


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--project", default=DEFAULT, help="Its project: id, name or path.  [default: the first one]"
)
@click.option("--owner", metavar="PERSON", help="Whose it is: an address or id of a person.")
@click.option("--band", help="How urgent its requests are: one of admission.bands.")
@click.option("--expires", type=UNTIL, help="When it ends: 90d, or a time as 2027-01-31.")
@limit_options
@click.option("--claim", "is_link", is_flag=True, help="Print a link instead of the key.")
@click.option("--base-url", metavar="URL", help="Where people reach the gateway, for the link.")
@click.option(
    "--claim-for",
    "claim_s",
    type=Duration(at_least_s=_AT_LEAST_S),
    help=f"How long the link opens the key.  [default: {units.shown_seconds(CLAIM_S)}]",
)
@on_store()
async def create(
    desk: Desk,
    *,
    name: str,
    project: str,
    owner: str | None,
    band: str | None,
    expires: float | None,
    is_link: bool,
    base_url: str | None,
    claim_s: float | None,
    **limits: Any,
) -> None:
    """Make a key called NAME. It is shown this once, and kept nowhere.

    With --claim nobody but its owner ever sees it: the link opens it once.

    \b
    llmgw keys create notebook
    llmgw keys create ci --project acme/research/chat --expires 90d --rpm 60 --models llama
    llmgw keys create phone --owner ann@example.org --claim --base-url https://llm.example.org
    """  # noqa: D301 - click reads \b
    if claim_s is not None and not is_link:
        raise Invalid("--claim-for is for a link: give --claim as well")
    base = checked_base_url(base_url, is_link=is_link)
    tree = await desk.accounts.directory.tree()
    wish = KeyWish(
        name=name,
        project_id=tree.project(project).project_id,
        user_id=await user_id(desk, owner),
        band=band,
        expires_at=expires,
        limits=key_params.changes(**limits),
        claim_s=(claim_s or CLAIM_S) if is_link else None,
    )
    made = await desk.accounts.keys.create(wish, actor=desk.actor)
    show_made(desk, made, tree=tree, base_url=base)


def checked_base_url(base_url: str | None, *, is_link: bool) -> str:
    """Where a link leads, without the slash at its end; ``Invalid`` for a link to nowhere."""
    if not is_link:
        return ""
    parts = urlsplit(base_url or "")
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise Invalid("a link needs --base-url, such as --base-url https://llm.example.org")
    return (base_url or "").rstrip("/")


async def user_id(desk: Desk, owner: str | None) -> str | None:
    """The person of an id or an address; ``Unknown`` where there is none."""
    if owner is None or "@" not in owner:
        return owner
    found = await desk.accounts.store.people.by_email(owner.strip().lower())
    if found is None:
        raise Unknown(f"there is nobody with the address {owner}; see 'llmgw users list'")
    return found.user_id


def show_made(desk: Desk, made: MadeKey, *, tree: Tree, base_url: str) -> None:
    """The key, or the link to it, which nobody can be told again."""
    link = f"{base_url}/claim/{made.claim.token}" if made.claim else None
    if desk.is_json:
        shown = {"link": link} if link else {"key": made.secret}
        document = keys_showing.key_document(made.key, now=desk.accounts.clock.wall(), tree=tree)
        desk.screen.document({**shown, **document})
        return
    facts: list[tuple[str, str | None]] = [("LINK", link) if link else ("KEY", made.secret)]
    facts += [
        ("ID", made.key.key_id),
        ("PROJECT", keys_showing.project_path(tree, made.key.project_id)),
    ]
    if made.claim:
        facts.append(("OPENS UNTIL", keys_showing.moment(made.claim.claim.expires_at)))
    desk.screen.facts(facts)
    desk.screen.line()
    desk.screen.line(
        "The link opens the key once; give it to its owner alone."
        if link
        else "This is shown once: put it where its owner keeps secrets."
    )
