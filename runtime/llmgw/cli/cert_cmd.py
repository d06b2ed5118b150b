"""``llmgw ctl cert``: the private CA of a site, and the certificates of servers and nodes.

Works on files only and asks no control plane.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from llmgw.cli import screens
from llmgw.cli.failures import ExitCode
from llmgw.kit.clock import SystemClock
from llmgw.rpc import authority, certificates
from llmgw.rpc.authority import Issued
from llmgw.rpc.certificates import CertificateFacts

_Command = Callable[..., Any]
_DIRECTORY = click.Path(file_okay=False, path_type=Path)

_dir = click.option(
    "--dir",
    "directory",
    type=_DIRECTORY,
    default=Path("llmgw-ca"),
    show_default=True,
    help="Folder of the authority; its ca.key must stay there.",
)
_out = click.option(
    "--out",
    type=_DIRECTORY,
    default=Path(),
    show_default="this folder",
    help="Folder that gets certificate, key and ca.pem.",
)
_json = click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")


def _days(default: int) -> Callable[[_Command], _Command]:
    return click.option(
        "--days",
        type=click.IntRange(min=1, max=36500),
        default=default,
        show_default=True,
        help="How long it is valid.",
    )


@click.group()
def cert() -> None:
    """Make and look at the certificates of servers and nodes."""


@cert.command("init-ca")
@_dir
@_days(authority.CA_DAYS)
@click.option("--name", default="", help="Name of the authority; made up when left out.")
@_json
def init_ca(*, directory: Path, days: int, name: str, is_json: bool) -> None:
    """Make the authority of this site; an existing one is never overwritten."""
    issued = authority.init_ca(directory, now=SystemClock().wall(), days=days, name=name)
    _show_issued(issued, is_json=is_json)


@cert.command("issue-server")
@click.argument("name")
@_dir
@_out
@click.option("--host", "hosts", multiple=True, help="Another name or address; may be repeated.")
@_days(authority.LEAF_DAYS)
@_json
def issue_server(
    *, name: str, directory: Path, out: Path, hosts: Sequence[str], days: int, is_json: bool
) -> None:
    """Issue the certificate of a control plane: for NAME and every --host that agents dial.

    Issuing again keeps the key and the earlier hosts, and renews the dates.
    """
    issued = authority.issue_server(
        directory, out=out, name=name, hosts=hosts, now=SystemClock().wall(), days=days
    )
    _show_issued(issued, is_json=is_json)


@cert.command("issue-client")
@click.argument("name")
@_dir
@_out
@_days(authority.LEAF_DAYS)
@_json
def issue_client(*, name: str, directory: Path, out: Path, days: int, is_json: bool) -> None:
    """Issue the certificate of a node: NAME is its node id.

    Issuing again keeps the key and renews the dates.
    """
    issued = authority.issue_client(
        directory, out=out, node_id=name, now=SystemClock().wall(), days=days
    )
    _show_issued(issued, is_json=is_json)


@cert.command()
@click.argument("file", type=click.Path(path_type=Path))
@_json
@click.pass_context
def inspect(ctx: click.Context, *, file: Path, is_json: bool) -> None:
    """Show what a certificate says; exit code 7 when it cannot be used now."""
    facts = certificates.inspect(file)
    problem = facts.validity_problem(now=SystemClock().wall())
    if is_json:
        screens.standard().document(
            {"file": str(file), "ok": not problem, "problem": problem, **_document(facts)}
        )
    else:
        screens.standard().facts(_lines(facts))
    if problem and not is_json:
        click.echo(f"{file} {problem}", err=True)
    if problem:
        ctx.exit(ExitCode.CHECK_SAID_NO)


def _show_issued(issued: Issued, *, is_json: bool) -> None:
    files = {"ca": str(issued.ca), "cert": str(issued.cert), "key": str(issued.key)}
    if is_json:
        document = {**files, "renewed": issued.is_renewed, **_document(issued.facts)}
        screens.standard().document(document)
        return
    kept = " (kept)" if issued.is_renewed else ""
    screens.standard().facts(
        [
            ("ca", files["ca"]),
            ("cert", files["cert"]),
            ("key", files["key"] + kept),
            *_lines(issued.facts),
        ]
    )


def _document(facts: CertificateFacts) -> dict[str, object]:
    return {
        **asdict(facts),
        "not_before_at": _moment(facts.not_before_at),
        "not_after_at": _moment(facts.not_after_at),
    }


def _lines(facts: CertificateFacts) -> list[tuple[str, str | None]]:
    purpose = "authority" if facts.is_ca else " and ".join(facts.usages)
    return [
        ("name", facts.subject),
        ("for", purpose or None),
        ("hosts", ", ".join(facts.hosts) or None),
        ("signed by", facts.issuer),
        ("valid from", _moment(facts.not_before_at)),
        ("valid until", _moment(facts.not_after_at)),
        ("serial", facts.serial),
        ("sha256", facts.fingerprint),
    ]


def _moment(at: float) -> str:
    return dt.datetime.fromtimestamp(at, tz=dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
