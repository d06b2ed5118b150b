"""``llmgw ctl cert request`` and ``sign``: a key stays where it was born, a request travels.

The first runs on the machine, the second where the authority is. Both read and write files only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import click

from llmgw.cli import cert_showing, screens
from llmgw.kit.clock import SystemClock
from llmgw.rpc import authority, certificates, enrolment
from llmgw.rpc.enrolment import Application, Files, Wanted

_MAX_REQUEST_BYTES = 64 * 1024
_USAGES = click.Choice(sorted(certificates.USAGES.values()))
_DIRECTORY = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)
_DAYS_BY_USAGE = {"client": authority.NODE_DAYS, "server": authority.LEAF_DAYS}


@click.command()
@click.argument("name")
@click.option("--usage", type=_USAGES, default="client", show_default=True, help="What it is for.")
@click.option(
    "--host", "hosts", multiple=True, help="A server's other name or address; repeatable."
)
@click.option(
    "--dir",
    "directory",
    type=_DIRECTORY,
    default=Path(),
    show_default="this folder",
    help="Folder of NAME.pem, NAME.key and ca.pem.",
)
@click.option("--cert", type=_FILE, help="Another place of the certificate.")
@click.option("--key", type=_FILE, help="Another place of the key.")
@click.option("--ca", type=_FILE, help="Another place of the authority's certificate.")
@click.option("--ca-sha256", default="", help="Fingerprint of the one authority to believe.")
@click.option(
    "--renew-days",
    type=click.IntRange(min=0),
    default=enrolment.RENEW_DAYS,
    show_default=True,
    help="Ask for a new one when less time is left.",
)
@click.option("--force", "is_forced", is_flag=True, help="Ask for a new one in any case.")
@click.option(
    "--exact-hosts",
    "has_exact_hosts",
    is_flag=True,
    help="Drop hosts of the present certificate that are not named again.",
)
@click.option("--check", "is_trial", is_flag=True, help="Write nothing.")
@click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")
def request(
    *,
    name: str,
    usage: str,
    hosts: Sequence[str],
    directory: Path,
    cert: Path | None,
    key: Path | None,
    ca: Path | None,
    ca_sha256: str,
    renew_days: int,
    is_forced: bool,
    has_exact_hosts: bool,
    is_trial: bool,
    is_json: bool,
) -> None:
    """Ask for a certificate for this machine, which is called NAME.

    Makes the key where there is none and writes a request to standard output, for 'llmgw ctl cert
    sign' on the machine of the authority. A certificate that still does is kept: then there is no
    request. A server asks for its earlier hosts again.

    \b
    llmgw ctl cert request gpu01
    """  # noqa: D301 - click reads \b
    wanted = Wanted(
        name=name,
        usage=usage,
        files=Files(
            ca=ca or directory / authority.CA_CERT,
            cert=cert or directory / f"{name}.pem",
            key=key or directory / f"{name}.key",
        ),
        hosts=tuple(hosts),
        renew_days=renew_days,
        ca_sha256=ca_sha256,
        is_forced=is_forced,
        has_exact_hosts=has_exact_hosts,
    )
    applied = enrolment.apply(wanted, now=SystemClock().wall(), is_trial=is_trial)
    if is_json:
        screens.standard().document(_document(wanted, applied))
        return
    for reason in applied.standing.reasons:
        click.echo(reason, err=True)
    if applied.standing.is_good:
        click.echo(f"{wanted.files.cert} is kept", err=True)
    if applied.csr_pem is not None:
        click.echo(applied.csr_pem, nl=False)


@click.command()
@click.option(
    "--csr", type=click.File("rb"), required=True, help="The request; - is standard input."
)
@click.option("--name", required=True, help="Whom it must be for; any other name is refused.")
@click.option("--usage", type=_USAGES, default="client", show_default=True, help="What it is for.")
@click.option(
    "--host", "hosts", multiple=True, help="A server's other name or address; repeatable."
)
@click.option(
    "--dir",
    "directory",
    type=_DIRECTORY,
    default=Path("llmgw-ca"),
    show_default=True,
    help="Folder of the authority.",
)
@click.option(
    "--days",
    type=click.IntRange(min=1, max=36500),
    show_default="90 of a client, 365 of a server",
    help="How long it is valid.",
)
@click.option("--address", default="", help="The machine's address; guards against two of a name.")
@click.option("--moved", "may_move", is_flag=True, help="The name has moved to this address.")
@click.option(
    "--allow-reserved",
    "may_be_reserved",
    is_flag=True,
    help="Let a client have a name that no node may have.",
)
@click.option("--check", "is_trial", is_flag=True, help="Sign and remember nothing of it.")
@click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")
def sign(
    *,
    csr: BinaryIO,
    name: str,
    usage: str,
    hosts: Sequence[str],
    directory: Path,
    days: int | None,
    address: str,
    may_move: bool,
    may_be_reserved: bool,
    is_trial: bool,
    is_json: bool,
) -> None:
    """Sign a request of 'llmgw ctl cert request', on the machine of the authority.

    The certificate goes to standard output. A client gets its name and nothing else.

    \b
    llmgw ctl cert sign --name gpu01 --csr gpu01.csr
    """  # noqa: D301 - click reads \b
    order = authority.Order(
        name=name,
        usage=usage,
        hosts=tuple(hosts),
        days=days or _DAYS_BY_USAGE[usage],
        address=address,
        may_be_reserved=may_be_reserved,
        may_move=may_move,
    )
    signed = authority.sign(
        directory,
        csr=csr.read(_MAX_REQUEST_BYTES),
        order=order,
        now=SystemClock().wall(),
        is_trial=is_trial,
    )
    if not is_json:
        sys.stdout.write(signed.certificate_pem)
        return
    screens.standard().document(
        {
            "certificate_pem": signed.certificate_pem,
            "ca_pem": signed.ca_pem,
            "ca_sha256": signed.ca_sha256,
            "changed": True,
            **cert_showing.document(signed.facts),
        }
    )


def _document(wanted: Wanted, applied: Application) -> dict[str, object]:
    standing, files = applied.standing, wanted.files
    facts = None if standing.facts is None else cert_showing.document(standing.facts)
    return {
        "name": wanted.name,
        "usage": wanted.usage,
        "files": {"ca": str(files.ca), "cert": str(files.cert), "key": str(files.key)},
        "key_created": applied.has_new_key,
        "changed": not standing.is_good,
        "keep": standing.is_good,
        "foreign": standing.is_foreign,
        "reasons": list(standing.reasons),
        "hosts": list(standing.hosts),
        "csr": applied.csr_pem,
        "certificate": facts,
    }
