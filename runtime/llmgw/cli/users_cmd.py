"""``llmgw users``: the table of its commands."""

from __future__ import annotations

from collections.abc import Mapping

import click

from llmgw.cli.lazy import LazyCommand, LazyGroup


def _command(module: str, attribute: str, text: str) -> LazyCommand:
    return LazyCommand(
        module=f"llmgw.cli.{module}", attribute=attribute, help=text, extras="server"
    )


_COMMANDS: Mapping[str, LazyCommand] = {
    "list": _command("user_list_cmd", "list_users", "Who has an account, and who waits for one."),
    "create": _command("user_make_cmd", "create", "Make an account for somebody."),
    "approve": _command("user_change_cmd", "approve", "Let somebody in who asked for an account."),
    "suspend": _command("user_change_cmd", "suspend", "Shut somebody out; keys work on."),
    "restore": _command("user_change_cmd", "restore", "Let somebody in again."),
    "promote": _command("user_change_cmd", "promote", "Make somebody an administrator."),
    "demote": _command("user_change_cmd", "demote", "Make somebody no administrator any more."),
    "reset-password": _command("user_make_cmd", "reset_password", "Give somebody a new password."),
}


@click.group(cls=LazyGroup, table=_COMMANDS)
def users() -> None:
    """Let people in and out.

    PERSON is an email address or an id. These commands open the store of this machine's server
    (auth.store) themselves, so that server need not run.
    """
