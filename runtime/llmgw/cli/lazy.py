"""A click group whose commands are imported only when they run.

The help of the group is printed from the table alone, so that ``llmgw --help`` starts at once and
works on an installation without extras. This is the one place that imports by name.
"""

from __future__ import annotations

import difflib
import gc
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from llmgw.errors import ExtraMissing


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is, its line in the help, and the extras that its packages come with."""

    module: str
    attribute: str
    help: str
    extras: str = ""
    is_hidden: bool = False


class LazyGroup(click.Group):
    """Commands by name, each imported at its first use."""

    def __init__(self, *args: Any, table: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        """``table`` holds the commands in the order of the help."""
        super().__init__(*args, **kwargs)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command that is not hidden, in the table's order; then those that are here."""
        named = [name for name, entry in self._table.items() if not entry.is_hidden]
        return [*named, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; ``ExtraMissing`` says what to install when packages are absent."""
        entry = self._table.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module = _imported(entry, typed=f"{ctx.command_path} {cmd_name}")
        _collect_from_now_on()
        found: object = getattr(module, entry.attribute)
        if not isinstance(found, click.Command):
            raise TypeError(f"{entry.module}.{entry.attribute} is not a command")
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was typed, or those that may have been meant."""
        near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=2)
        is_known = args[0] in self._table or args[0] in self.commands
        if not is_known and near and not ctx.resilient_parsing:
            meant = " or ".join(map(repr, near))
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {meant}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        rows = [(name, self._help_of(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _help_of(self, name: str) -> str:
        entry = self._table.get(name)
        return self.commands[name].get_short_help_str(80) if entry is None else entry.help


def _collect_from_now_on() -> None:
    """What the process was started without; modules live as long as it, and are not looked at."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _imported(entry: LazyCommand, *, typed: str) -> object:
    try:
        return importlib.import_module(entry.module)
    except ModuleNotFoundError as error:
        if not entry.extras or error.name is None or error.name.partition(".")[0] == "llmgw":
            raise
        raise ExtraMissing(
            f"'{typed}' needs the package {error.name!r}, which is not installed; "
            f"run: pip install 'llmgw[{entry.extras}]', "
            f"or in a clone: pip install '.[{entry.extras}]'"
        ) from error
