"""``llmgw engine``: install engines on this machine, check them, list them.

Works on the machine that it runs on and asks no control plane; the fleet's Ansible role calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from llmgw.agent.discovery import host
from llmgw.agent.install import release_hosts
from llmgw.agent.install.builds import Builds, Installed
from llmgw.agent.install.examining import Examiner, Outcome
from llmgw.agent.install.installing import Installer, Policy
from llmgw.agent.install.releases import DIGEST
from llmgw.agent.install.tools import Tools
from llmgw.cli import figures, screens
from llmgw.cli.failures import ExitCode
from llmgw.cli.screens import Column, Row
from llmgw.config import sources
from llmgw.config.settings import AgentSettings
from llmgw.domain.nodes import InstallState
from llmgw.errors import Invalid

_CODES = {InstallState.FAILED: ExitCode.FAILED, InstallState.UNSUPPORTED: ExitCode.REFUSED}
_COLUMNS = (
    Column("ENGINE", is_whole=True),
    Column("VERSION", is_whole=True),
    Column("VARIANT", is_whole=True),
    Column("IN USE", is_state=True),
    Column("INSTALLED"),
    Column("PROGRAM", is_whole=True),
)

_root = click.option(
    "--dir",
    "root",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(AgentSettings().engines_dir),
    show_default=True,
    help="Folder of the engines; the agent's engines_dir.",
)
_json = click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")


@click.group()
def engine() -> None:
    """Install engines on this machine, check them, list them."""


@engine.command()
@click.argument("name", metavar="ENGINE")
@click.option("--version", required=True, help="Exactly which release, such as b10991.")
@_root
@click.option(
    "--source",
    "written_sources",
    multiple=True,
    default=("github",),
    show_default=True,
    metavar="KIND[=PLACE]",
    help="bundle=DIR, mirror=URL, github or github=URL; tried in the order given.",
)
@click.option(
    "--digest",
    "digests",
    multiple=True,
    metavar="FILE=SHA256",
    help="What a file must be, whatever its source says; may be repeated.",
)
@click.option("--no-packages", is_flag=True, help="Let missing system packages be a failure.")
@click.option("--no-activate", is_flag=True, help="Only lay it beside the build in use.")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=Policy().keep,
    show_default=True,
    help="Builds that stay; one in use always does.",
)
@click.option("--check", "is_trial", is_flag=True, help="Say what would be done and do nothing.")
@_json
@click.pass_context
def install(
    ctx: click.Context,
    *,
    name: str,
    version: str,
    root: Path,
    written_sources: Sequence[str],
    digests: Sequence[str],
    no_packages: bool,
    no_activate: bool,
    keep: int,
    is_trial: bool,
    is_json: bool,
) -> None:
    """Install ENGINE (llamacpp, vllm, sglang) here; needs root for system packages.

    What is installed already is only seen to run, without any network. Exit code 1 when it failed,
    5 when this machine cannot run it.

    \b
    llmgw engine install llamacpp --version b10991
    """  # noqa: D301 - click reads \b
    installer = Installer(
        examiner=_examiner(root),
        sources=[release_hosts.parse(written) for written in written_sources],
        policy=Policy(
            keep=keep,
            may_activate=not no_activate,
            may_install_packages=not no_packages,
            pinned=dict(map(_digest, digests)),
        ),
        say=lambda step: click.echo(f"installing: {step}", err=True),
    )
    outcome = installer.foresee(name, version) if is_trial else installer.install(name, version)
    _show(outcome, is_json=is_json)
    ctx.exit(_CODES.get(outcome.status.state, ExitCode.OK))


@engine.command()
@click.argument("name", metavar="ENGINE")
@click.option("--version", default="", help="Another one than that in use.")
@_root
@_json
@click.pass_context
def check(ctx: click.Context, *, name: str, version: str, root: Path, is_json: bool) -> None:
    """Look whether the installed ENGINE can run here; exit code 7 when it cannot.

    \b
    llmgw engine check llamacpp
    """  # noqa: D301 - click reads \b
    outcome = _examiner(root).check(name, version)
    _show(outcome, is_json=is_json)
    if not outcome.is_ready:
        ctx.exit(ExitCode.CHECK_SAID_NO)


@engine.command("list")
@_root
@_json
def list_builds(*, root: Path, is_json: bool) -> None:
    """List what is installed, the newest first; nothing is run.

    \b
    llmgw engine list
    """  # noqa: D301 - click reads \b
    builds = Builds(root)
    found = [built for name in builds.engines() for built in builds.of(name)]
    screen = screens.standard()
    if is_json:
        screen.document({"dir": str(root), "engines": [_document(built) for built in found]})
        return
    screen.table(_COLUMNS, [_row(built) for built in found])
    if not found:
        screen.line(f"no engine is installed in {root}")


def _examiner(root: Path) -> Examiner:
    tools = Tools(environ=sources.environment())
    return Examiner(builds=Builds(root), host=host.read(), tools=tools)


def _digest(written: str) -> tuple[str, str]:
    asset, _, digits = written.rpartition("=")
    digits = digits.lower().removeprefix("sha256:")
    if not asset or not DIGEST.fullmatch(digits):
        raise Invalid(f"--digest {written!r}: write FILE=SHA256, with 64 hex digits")
    return asset, digits


def _show(outcome: Outcome, *, is_json: bool) -> None:
    status = outcome.status
    if is_json:
        screens.standard().document(
            {
                "engine": status.engine,
                "version": status.version,
                "variant": status.variant,
                "state": str(status.state),
                "detail": status.detail,
                "warning": status.warning,
                "binary": None if outcome.program is None else str(outcome.program),
                "path": None if outcome.folder is None else str(outcome.folder),
                "changed": outcome.is_changed,
                "missing_packages": list(outcome.missing_packages),
                "removed": list(outcome.removed),
            }
        )
        return
    screen = screens.standard()
    screen.facts(
        [
            ("engine", f"{status.engine} {status.version} {status.variant}".rstrip()),
            ("state", str(status.state)),
            ("detail", status.detail or None),
            ("program", None if outcome.program is None else str(outcome.program)),
            ("missing", figures.listed(outcome.missing_packages)),
            ("removed", figures.listed(outcome.removed)),
        ]
    )
    if status.warning:
        click.echo(status.warning, err=True)


def _document(built: Installed) -> dict[str, object]:
    marker = built.marker
    return {
        "engine": marker.engine,
        "version": marker.version,
        "variant": marker.variant,
        "is_current": built.is_current,
        "installed_at": marker.installed,
        "binary": str(built.program),
        "path": str(built.folder),
        "sha256": dict(marker.sha256),
    }


def _row(built: Installed) -> Row:
    marker = built.marker
    return Row(
        cells=(
            marker.engine,
            marker.version,
            marker.variant,
            "yes" if built.is_current else "no",
            marker.installed,
            str(built.program),
        )
    )
