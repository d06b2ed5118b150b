"""``llmgw config``: check a settings file before a role is started with it."""

from __future__ import annotations

from pathlib import Path

import click

from llmgw.cli import screens
from llmgw.cli.failures import ExitCode
from llmgw.config import reference, roles, sources
from llmgw.config.roles import Role
from llmgw.control.reconciler import fleet_families
from llmgw.errors import Invalid, SettingsInvalid
from llmgw.gateway import families


@click.group()
def config() -> None:
    """Check settings files."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--role",
    type=click.Choice([str(role) for role in Role]),
    help="Whose settings these are; found by the keys when left out.",
)
@click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")
@click.pass_context
def check(ctx: click.Context, *, file: Path, role: str | None, is_json: bool) -> None:
    """Check FILE as a start would read it, variables of the environment included.

    Lists every mistake; the exit code is then 2.

    \b
    llmgw config check /etc/llmgw/server.yaml
    """  # noqa: D301 - click reads \b
    found = Role(role) if role else roles.guess(file)
    if found is None and file.is_file():
        raise Invalid(f"{file} could be for a server, an agent or a gateway: say which with --role")
    checked = found or Role.SERVER
    try:
        checked.load(file, environ=sources.environment())
    except SettingsInvalid as error:
        if not is_json:
            raise
        problems = [{"path": p.path, "message": p.message} for p in error.problems]
        _document(file, role=checked, problems=problems)
        ctx.exit(ExitCode.USAGE)
    if is_json:
        _document(file, role=checked, problems=[])
    else:
        guessed = "" if role else " (by its keys)"
        screens.standard().line(f"{file}: no mistakes; settings of {_NAMES[checked]}{guessed}")


@config.command("reference")
@click.option("--metrics", "is_of_metrics", is_flag=True, help="List the metrics instead.")
def show_reference(*, is_of_metrics: bool) -> None:
    """Write the page that lists every setting, in Markdown.

    \b
    llmgw config reference > settings.md
    llmgw config reference --metrics
    """  # noqa: D301 - click reads \b
    page = f"{families.page()}\n{fleet_families.page()}" if is_of_metrics else reference.render()
    click.echo(page, nl=False)


_NAMES = {Role.SERVER: "a server", Role.AGENT: "an agent", Role.GATEWAY: "a gateway"}


def _document(file: Path, *, role: Role, problems: list[dict[str, str]]) -> None:
    document = {"file": str(file), "role": str(role), "ok": not problems, "problems": problems}
    screens.standard().document(document)
