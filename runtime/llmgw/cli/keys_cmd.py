"""``llmgw keys``: the table of its commands."""

from __future__ import annotations

from collections.abc import Mapping

import click

from llmgw.cli.lazy import LazyCommand, LazyGroup

_EXTRAS = "server"


def _command(module: str, attribute: str, text: str) -> LazyCommand:
    return LazyCommand(module=f"llmgw.cli.{module}", attribute=attribute, help=text, extras=_EXTRAS)


_COMMANDS: Mapping[str, LazyCommand] = {
    "init": _command("key_tree_cmd", "init", "Make the first organisation, team and project."),
    "create": _command("key_make_cmd", "create", "Make a key, or a link by which it is fetched."),
    "list": _command("key_list_cmd", "list_keys", "The keys, whose they are, when they were used."),
    "show": _command("key_list_cmd", "show", "One key, and every limit above it."),
    "limits": _command("key_limits_cmd", "limits", "Show or set what a place or a key may use."),
    "rotate": _command("key_change_cmd", "rotate", "Give a key another secret."),
    "revoke": _command("key_change_cmd", "revoke", "Let a key open nothing any more."),
    "move": _command("key_change_cmd", "move", "Put a key into another project."),
    "tree": _command("key_tree_cmd", "tree", "Organisations, teams, projects and their limits."),
    "add-org": _command("key_tree_cmd", "add_org", "Add an organisation."),
    "add-team": _command("key_tree_cmd", "add_team", "Add a team to an organisation."),
    "add-project": _command("key_tree_cmd", "add_project", "Add a project to a team."),
    "rename": _command("key_tree_cmd", "rename", "Call an organisation, team or project else."),
    "move-store": _command("move_store_cmd", "move_store", "Copy a store into PostgreSQL."),
}


@click.group(cls=LazyGroup, table=_COMMANDS)
def keys() -> None:
    """Make keys, say what they may use, and end them.

    These commands open the store of this machine's server (auth.store) themselves, so that server
    need not run. Running gateways hear of a change within auth.cache_ttl.
    """
