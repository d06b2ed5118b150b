"""``llmgw ctl cert``: the private CA of a site, and the certificates of servers and nodes.

Works on files only and asks no control plane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from llmgw.cli import cert_showing, screens
from llmgw.cli.enrolment_cmd import request, sign
from llmgw.cli.failures import ExitCode
from llmgw.kit.clock import SystemClock
from llmgw.rpc import authority, certificates
from llmgw.rpc.authority import Issued
from llmgw.rpc.certificates import CertificateFacts

_Command = Callable[..., Any]
_DAY_S = 86400.0
_FILE = click.Path(dir_okay=False, path_type=Path)
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


@click.group(commands=[request, sign])
def cert() -> None:
    """Make and look at the certificates of servers and nodes."""


@cert.command("init-ca")
@_dir
@_days(authority.CA_DAYS)
@click.option("--name", default="", help="Name of the authority; made up when left out.")
@_json
def init_ca(*, directory: Path, days: int, name: str, is_json: bool) -> None:
    """Make the authority of this site; an existing one is never overwritten.

    \b
    llmgw ctl cert init-ca --dir /etc/llmgw/ca
    """  # noqa: D301 - click reads \b
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

    \b
    llmgw ctl cert issue-server control01 --host 10.0.0.1
    """  # noqa: D301 - click reads \b
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
    """Issue the certificate of a node: NAME is its node id, or gateway- and a gateway's name.

    Issuing again keeps the key and renews the dates.

    \b
    llmgw ctl cert issue-client gpu01
    """  # noqa: D301 - click reads \b
    issued = authority.issue_client(
        directory, out=out, node_id=name, now=SystemClock().wall(), days=days
    )
    _show_issued(issued, is_json=is_json)


@cert.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--ca", type=_FILE, help="Also say whether this authority signed it.")
@click.option("--key", type=_FILE, help="Also say whether this is its key.")
@_json
@click.pass_context
def inspect(
    ctx: click.Context, *, file: Path, ca: Path | None, key: Path | None, is_json: bool
) -> None:
    """Show what a certificate says; exit code 7 when it cannot be used now.

    \b
    llmgw ctl cert inspect /etc/llmgw/tls/gpu01.crt
    """  # noqa: D301 - click reads \b
    facts, now = certificates.inspect(file), SystemClock().wall()
    root = certificates.root_of(ca=ca, cert=file) if ca else None
    found = _Inspection(
        problem=facts.validity_problem(now=now),
        root=root,
        is_signed_by_ca=None if ca is None else root is not None,
        key_matches=certificates.is_key_of(cert=file, key=key) if key else None,
    )
    if is_json:
        screens.standard().document(
            {
                "file": str(file),
                "ok": found.is_good,
                "problem": found.problem,
                "days_left": int((facts.not_after_at - now) // _DAY_S),
                "is_signed_by_ca": found.is_signed_by_ca,
                "issuer_fingerprint": found.root.fingerprint if found.root else None,
                "key_matches": found.key_matches,
                **cert_showing.document(facts),
            }
        )
    else:
        screens.standard().facts(cert_showing.lines(facts))
        for complaint in found.complaints(ca=ca, key=key):
            click.echo(f"{file} {complaint}", err=True)
    if not found.is_good:
        ctx.exit(ExitCode.CHECK_SAID_NO)


@dataclass(frozen=True, slots=True)
class _Inspection:
    """What was found wrong; ``None`` is not asked."""

    problem: str
    root: CertificateFacts | None
    is_signed_by_ca: bool | None
    key_matches: bool | None

    @property
    def is_good(self) -> bool:
        return (
            not self.problem and self.is_signed_by_ca is not False and self.key_matches is not False
        )

    def complaints(self, *, ca: Path | None, key: Path | None) -> list[str]:
        complaints = [self.problem] if self.problem else []
        if self.is_signed_by_ca is False:
            complaints.append(f"was not signed by the authority in {ca}")
        if self.key_matches is False:
            complaints.append(f"does not belong to the key in {key}")
        return complaints


def _show_issued(issued: Issued, *, is_json: bool) -> None:
    files = {"ca": str(issued.ca), "cert": str(issued.cert), "key": str(issued.key)}
    if is_json:
        document = {**files, "renewed": issued.is_renewed, **cert_showing.document(issued.facts)}
        screens.standard().document(document)
        return
    kept = " (kept)" if issued.is_renewed else ""
    screens.standard().facts(
        [
            ("ca", files["ca"]),
            ("cert", files["cert"]),
            ("key", files["key"] + kept),
            *cert_showing.lines(issued.facts),
        ]
    )
