"""``llmgw server init``: a control plane on this machine, from nothing or from half of one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from llmgw.cli import screens, whoami
from llmgw.cli.failures import ExitCode
from llmgw.cli.screens import Column, Row
from llmgw.config import sources
from llmgw.domain import people
from llmgw.domain.actors import Actor
from llmgw.kit.clock import SystemClock
from llmgw.serve.founding import administrator, founder
from llmgw.serve.founding.administrator import FirstAdmin
from llmgw.serve.founding.founder import Founded
from llmgw.serve.founding.ground import Ground
from llmgw.serve.founding.machine import ThisMachine
from llmgw.serve.founding.places import Places

_COLUMNS = (Column("STEP", is_whole=True), Column("STATE", is_state=True), Column("DETAIL"))


@click.command()
@click.option("--host", "hosts", multiple=True, help="Another name or address; may be repeated.")
@click.option(
    "--admin", metavar="EMAIL", help="Make this administrator; its password is printed once."
)
@click.option("--check", "is_trial", is_flag=True, help="Say what would be done and do nothing.")
@click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")
@click.pass_context
def init(
    ctx: click.Context,
    *,
    hosts: Sequence[str],
    admin: str | None,
    is_trial: bool,
    is_json: bool,
) -> None:
    """Make this machine a control plane: user, folders, authority, certificate, settings, service.

    Each step looks for its own result first, so it may be run again at any time; what is there
    stays. --host adds addresses that this machine does not see itself. --admin makes the first
    project and an account in it; one that is there stays as it is. Needs root.

    \b
    llmgw server init
    llmgw server init --host llm.example.org --admin ann@example.org
    """  # noqa: D301 - click reads \b
    if admin is not None:
        people.normalise_email(admin)
    machine = ThisMachine()
    ground = Ground(
        machine=machine,
        clock=SystemClock(),
        places=Places(),
        program=_this_program(),
        hosts=tuple(dict.fromkeys((*machine.hosts(), *hosts))),
        is_trial=is_trial,
        needs_store=admin is not None,
    )
    founded, made = founder.found(ground), None
    if admin is not None and founded.failure is None:
        actor = Actor(whoami.who(sources.environment()), origin="cli")
        step, made = administrator.see_to(ground, email=admin, actor=actor)
        founded = replace(founded, steps=(*founded.steps, step))
    if is_json:
        _document(founded, made)
    else:
        _show(founded, made, is_trial=is_trial)
    if founded.failure is not None:
        if not is_json:
            click.echo(f"llmgw: the step {founded.failure.name} failed", err=True)
        ctx.exit(ExitCode.FAILED)


def _this_program() -> Path:
    """The ``llmgw`` beside the Python that runs this."""
    beside = Path(sys.executable).with_name("llmgw")
    return beside if beside.exists() else Path(shutil.which("llmgw") or beside)


def _document(founded: Founded, made: FirstAdmin | None) -> None:
    admin = None if made is None else {"email": made.email, "password": made.password}
    screens.standard().document(
        {
            "admin": admin,
            "changed": founded.is_changed,
            "steps": [
                {"name": step.name, "state": str(step.state), "detail": step.detail}
                for step in founded.steps
            ],
            "hosts": list(founded.hosts),
            "ca_sha256": founded.ca_sha256 or None,
        }
    )


def _show(founded: Founded, made: FirstAdmin | None, *, is_trial: bool) -> None:
    screen = screens.standard()
    rows = []
    for step in founded.steps:
        first, *under = step.detail.splitlines() or [""]
        rows.append(Row(cells=(step.name, str(step.state), first), under=under))
    screen.table(_COLUMNS, rows)
    if is_trial or founded.failure is not None:
        return
    screen.line()
    if made is not None and made.password is not None:
        screen.line(f"the password of {made.email}, shown this once: {made.password}")
    if founded.ca_sha256:
        screen.line(f"nodes believe the authority with the fingerprint {founded.ca_sha256}")
    screen.line("see 'llmgw ctl status'; put models into /etc/llmgw/server.yaml")
    screen.line("keys are off: whoever reaches port 8080 may use every model")
