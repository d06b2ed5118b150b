"""What every command shares that opens the store itself: its options, and who uses it.

Such commands need no running server. Root goes on as the owner of the store's file.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from llmgw.cli import screens, settings_files, whoami
from llmgw.cli.screens import Screen
from llmgw.config import loading, sources
from llmgw.config.settings import ServerSettings
from llmgw.domain.actors import Actor
from llmgw.serve import accounts, loops
from llmgw.serve.accounts import Accounts


@dataclass(frozen=True, slots=True)
class Desk:
    """One command's store, who runs it, its screen, and whether a program reads the answer."""

    accounts: Accounts
    settings: ServerSettings
    actor: Actor
    screen: Screen
    is_json: bool


def on_store(
    *, may_create: bool = False
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Add what all have in common; hand the command a ``Desk`` as its first argument.

    ``may_create``: it may make the tables of an empty store.
    """

    def decorate(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @settings_files.option(settings_files.SERVER, whose="The server's")
        @click.option(
            "--store",
            metavar="ADDRESS",
            help="Where the store is: a path, postgresql://…, or @/file that holds one.  "
            "[default: auth.store of the settings]",
        )
        @click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")
        @functools.wraps(command)
        def wrapped(
            *, config: Path | None, store: str | None, is_json: bool, **options: Any
        ) -> None:
            environ = sources.environment()
            settings = settings_of(config, store, environ=environ)
            actor = Actor(whoami.who(environ), origin="cli")

            async def run() -> None:
                async with accounts.opened(
                    settings, environ=environ, may_create=may_create
                ) as opened:
                    screen = screens.standard()
                    desk = Desk(opened, settings, actor=actor, screen=screen, is_json=is_json)
                    await command(desk, **options)

            loops.run(run())

        made: Callable[..., None] = wrapped
        return made

    return decorate


def settings_of(
    config: Path | None, store: str | None, *, environ: Mapping[str, str]
) -> ServerSettings:
    """The settings of the server of this machine, with another store where one is named."""
    file = settings_files.chosen(config, usual=settings_files.SERVER)
    overrides = {"auth.store": store} if store else {}
    return loading.load_server(file, environ=environ, overrides=overrides)
