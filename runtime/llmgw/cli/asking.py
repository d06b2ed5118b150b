"""What every ``ctl`` command that asks a control plane shares: its options and its client."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from llmgw.cli import plain, screens
from llmgw.cli.client import AdminClient
from llmgw.cli.ctl_options import CtlOptions
from llmgw.cli.screens import Screen


@dataclass(frozen=True, slots=True)
class Asking:
    """One command's client and screen, and whether a program reads the answer."""

    client: AdminClient
    screen: Screen
    is_json: bool


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Add what all have in common; hand the command an ``Asking`` as its first argument."""

    @click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")
    @click.option("--no-headers", is_flag=True, help="Tables without their first line.")
    @click.option("--admin", metavar="URL", help="Admin address, as in 'llmgw ctl --admin URL'.")
    @click.pass_obj
    @functools.wraps(command)
    def wrapped(
        group: CtlOptions,
        /,
        *,
        is_json: bool,
        no_headers: bool,
        admin: str | None,
        **options: Any,
    ) -> None:
        screen = screens.standard(has_headers=group.has_headers and not no_headers)
        with AdminClient(
            url=admin or group.admin_url,
            timeout_s=group.timeout_s,
            token=group.token(),
            remark=_remark,
        ) as client:
            command(Asking(client=client, screen=screen, is_json=is_json), **options)

    return wrapped


def _remark(text: str) -> None:
    """Beside the answer, which a program may read."""
    click.echo(f"llmgw: {plain.one_line(text)}", err=True)
