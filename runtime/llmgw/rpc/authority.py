"""The private certificate authority of a site: makes it, and issues what servers and nodes carry.

``llmgw ctl cert`` and the fleet's onboarding call it. Everything is ECDSA on P-256. A key is never
readable by others and never overwritten: issuing again keeps the key and the hosts that were named
before, and renews the dates. Certificates carry all that strict verifiers ask for.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from llmgw.domain.names import NODE_NAME
from llmgw.errors import Conflict, Invalid, Unknown
from llmgw.kit import ids
from llmgw.rpc import certificates

CA_CERT = "ca.pem"
CA_KEY = "ca.key"
CA_DAYS = 3650
LEAF_DAYS = 365

_SKEW = dt.timedelta(minutes=5)
"""Certificates begin this much earlier, because the clocks of a fleet are never quite equal."""


@dataclass(frozen=True, slots=True)
class Issued:
    """What lies where after an issue; ``is_renewed`` says that an earlier key was kept."""

    ca: Path
    cert: Path
    key: Path
    facts: certificates.CertificateFacts
    is_renewed: bool = False


def init_ca(directory: Path, *, now: float, days: int = CA_DAYS, name: str = "") -> Issued:
    """Make a new authority in ``directory``; ``Conflict`` if it already holds one.

    Without a ``name`` it gets one that differs from every other's, so that a person sees a mix-up.
    """
    cert_path, key_path = directory / CA_CERT, directory / CA_KEY
    if cert_path.exists():
        raise Conflict(f"{cert_path} exists; a new authority would cut off every node it serves")
    _make_directory(directory, mode=0o700)
    key, is_kept = _own_key(key_path)
    subject = _common_name(name or f"llmgw CA {ids.token()}")
    builder = _builder(subject=subject, issuer=subject, public=key.public_key(), now=now, days=days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    certificate = _sign(builder, usage=_CA_USAGE, issuer_key=key)
    _write(cert_path, certificate.public_bytes(Encoding.PEM), mode=0o644)
    facts = certificates.facts_of(certificate)
    return Issued(ca=cert_path, cert=cert_path, key=key_path, facts=facts, is_renewed=is_kept)


def issue_server(
    directory: Path,
    *,
    out: Path,
    name: str,
    hosts: Sequence[str],
    now: float,
    days: int = LEAF_DAYS,
) -> Issued:
    """A control plane's pair into ``out``, for its name, ``hosts`` and those it had before."""
    names = [_checked_host(host) for host in (name, *hosts)]
    return _issue(
        _Wish(name=name, hosts=names, purpose=ExtendedKeyUsageOID.SERVER_AUTH, days=days),
        directory=directory,
        out=out,
        now=now,
    )


def issue_client(
    directory: Path, *, out: Path, node_id: str, now: float, days: int = LEAF_DAYS
) -> Issued:
    """A node's pair into ``out``; its common name is the node's identity everywhere."""
    if not NODE_NAME.fullmatch(node_id):
        raise Invalid(f"{node_id!r} is no node name: letters, digits, dots and dashes, at most 63")
    return _issue(
        _Wish(name=node_id, hosts=[node_id], purpose=ExtendedKeyUsageOID.CLIENT_AUTH, days=days),
        directory=directory,
        out=out,
        now=now,
    )


@dataclass(frozen=True, slots=True)
class _Wish:
    name: str
    hosts: Sequence[str]
    purpose: x509.ObjectIdentifier
    days: int


def _issue(wish: _Wish, *, directory: Path, out: Path, now: float) -> Issued:
    ca, ca_key = _authority(directory)
    _make_directory(out, mode=0o755)
    ca_path = _place_ca(ca, out)
    cert_path, key_path = out / f"{wish.name}.pem", out / f"{wish.name}.key"
    earlier = _earlier_hosts(cert_path, purpose=wish.purpose)
    key, is_kept = _own_key(key_path)
    builder = _builder(
        subject=_common_name(wish.name),
        issuer=ca.subject,
        public=key.public_key(),
        now=now,
        days=wish.days,
    )
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_alternative_names([*wish.hosts, *earlier]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([wish.purpose]), critical=False)
    )
    certificate = _sign(builder, usage=_LEAF_USAGE, issuer_key=ca_key)
    _write(cert_path, certificate.public_bytes(Encoding.PEM), mode=0o644)
    facts = certificates.facts_of(certificate)
    return Issued(ca=ca_path, cert=cert_path, key=key_path, facts=facts, is_renewed=is_kept)


def _authority(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        return _first(directory / CA_CERT), _load_key(directory / CA_KEY)
    except Unknown as error:
        raise Unknown(
            f"{error.message}; make the authority first: llmgw ctl cert init-ca --dir {directory}"
        ) from error


def _first(path: Path) -> x509.Certificate:
    return certificates.read_chain(path)[0]


def _place_ca(ca: x509.Certificate, out: Path) -> Path:
    path = out / CA_CERT
    if not path.exists():
        _write(path, ca.public_bytes(Encoding.PEM), mode=0o644)
    elif ca not in certificates.read_chain(path):
        raise Conflict(f"{path} belongs to another authority; give another --out")
    return path


def _earlier_hosts(path: Path, *, purpose: x509.ObjectIdentifier) -> tuple[str, ...]:
    if not path.exists():
        return ()
    certificate = _first(path)
    usages = certificates.facts_of(certificate).usages
    if certificates.USAGES[purpose] not in usages:
        raise Conflict(f"{path} is a {' and '.join(usages)} certificate; give another --out")
    return certificates.hosts_of(certificate)


def _own_key(path: Path) -> tuple[ec.EllipticCurvePrivateKey, bool]:
    """The key at ``path``, made if there is none; whether it was there before."""
    if path.exists():
        return _load_key(path), True
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write(path, pem, mode=0o600, may_replace=False)
    return key, False


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(certificates.read_bytes(path), password=None)
    except (ValueError, TypeError) as error:
        raise Invalid(f"{path}: holds no usable private key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Invalid(f"{path}: is no ECDSA key; move it away and issue again")
    return key


def _builder(
    *,
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    now: float,
    days: int,
) -> x509.CertificateBuilder:
    begin = dt.datetime.fromtimestamp(now, tz=dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - _SKEW)
        .not_valid_after(begin + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _sign(
    builder: x509.CertificateBuilder,
    *,
    usage: x509.KeyUsage,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        builder.add_extension(above, critical=False)
        .add_extension(usage, critical=True)
        .sign(issuer_key, hashes.SHA256())
    )


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )


_CA_USAGE = _usage(is_ca=True)
_LEAF_USAGE = _usage(is_ca=False)


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative_names(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_general_name(host) for host in dict.fromkeys(hosts)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _checked_host(host: str) -> str:
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    if NODE_NAME.fullmatch(host):
        return host
    raise Invalid(f"{host!r} is no host: give a name or an address, without scheme or port")


def _make_directory(path: Path, *, mode: int) -> None:
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"{path}: cannot be made: {error.strerror}") from error


def _write(path: Path, content: bytes, *, mode: int, may_replace: bool = True) -> None:
    """Whole or not at all, and never readable to more people than ``mode`` says."""
    part = path.with_name(f".{path.name}.{ids.token()}")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if may_replace:
            part.replace(path)
        else:
            path.hardlink_to(part)
    except FileExistsError as error:
        raise Conflict(f"{path} was made by somebody else in this moment; try again") from error
    except OSError as error:
        raise Invalid(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
