"""Reads certificates and says what is wrong with a node's own pair before anybody else finds out.

TLS tells a client with a bad certificate nothing but a closed socket. So the agent asks here first,
and ``llmgw ctl cert inspect`` shows the same facts to a person.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from llmgw.errors import Invalid, Problem, Unknown

_MAX_BYTES = 1024 * 1024
_MAX_CHAIN = 8
USAGES = {
    ExtendedKeyUsageOID.CLIENT_AUTH: "client",
    ExtendedKeyUsageOID.SERVER_AUTH: "server",
}
"""What a certificate may be used for, in our words."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """What one certificate says; times are seconds since 1970, the fingerprint is SHA-256."""

    subject: str
    issuer: str
    serial: str
    not_before_at: float
    not_after_at: float
    is_ca: bool
    usages: tuple[str, ...]
    hosts: tuple[str, ...]
    fingerprint: str

    def validity_problem(self, *, now: float) -> str:
        """Why the certificate cannot be used at ``now``; empty when it can."""
        if now < self.not_before_at:
            return f"is not valid before {_day(self.not_before_at)}; check this machine's clock"
        if now > self.not_after_at:
            return f"expired on {_day(self.not_after_at)}"
        return ""


def inspect(path: Path) -> CertificateFacts:
    """What the first certificate of a PEM file says; ``Unknown`` without the file."""
    return facts_of(read_chain(path)[0])


def check_own_pair(
    *, ca: Path, cert: Path, key: Path, node_id: str, now: float
) -> tuple[Problem, ...]:
    """All that would make the control plane refuse this node, file by file; empty if nothing."""
    chain, problems = _check_files(ca=ca, cert=cert, key=key, now=now)
    if chain:
        facts = facts_of(chain[0])
        if facts.subject != node_id:
            problems.append(_at(cert, f"names {facts.subject!r}, but this node is {node_id!r}"))
        if facts.usages and "client" not in facts.usages:
            problems.append(_at(cert, "is no client's certificate; make one by issue-client"))
    return tuple(problems)


def check_server_pair(*, ca: Path, cert: Path, key: Path, now: float) -> tuple[Problem, ...]:
    """All that would make every node refuse this control plane; empty if nothing."""
    chain, problems = _check_files(ca=ca, cert=cert, key=key, now=now)
    if chain and "server" not in (facts_of(chain[0]).usages or ("server",)):
        problems.append(_at(cert, "is no server's certificate; make one by issue-server"))
    return tuple(problems)


def pair_problems(*, ca: Path, cert: Path, key: Path, now: float) -> tuple[Problem, ...]:
    """What keeps these three files from being used together now, whoever they are for."""
    _, problems = _check_files(ca=ca, cert=cert, key=key, now=now)
    return tuple(problems)


def root_of(*, ca: Path, cert: Path) -> CertificateFacts | None:
    """The root in ``ca`` that the certificate hangs on; nothing if it is of another authority."""
    root = _root_of(read_chain(cert), read_chain(ca))
    return None if root is None else facts_of(root)


def is_key_of(*, cert: Path, key: Path) -> bool:
    """Whether the private key belongs to the first certificate of the file."""
    return read_chain(cert)[0].public_key() == _read_key(key).public_key()


def read_chain(path: Path) -> list[x509.Certificate]:
    """All certificates of a PEM file, the leaf first; ``Unknown`` or ``Invalid`` with the path."""
    try:
        return x509.load_pem_x509_certificates(read_bytes(path))
    except ValueError as error:
        raise Invalid(f"{path}: holds no certificate in PEM form") from error


def read_bytes(path: Path) -> bytes:
    """A small file; ``Unknown`` when it is missing, ``Invalid`` when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES)
    except FileNotFoundError as error:
        raise Unknown(f"{path}: no such file") from error
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from error


def facts_of(certificate: x509.Certificate) -> CertificateFacts:
    """What this certificate says."""
    return CertificateFacts(
        subject=common_name(certificate.subject),
        issuer=common_name(certificate.issuer),
        serial=f"{certificate.serial_number:x}",
        not_before_at=certificate.not_valid_before_utc.timestamp(),
        not_after_at=certificate.not_valid_after_utc.timestamp(),
        is_ca=_is_ca(certificate),
        usages=_usages(certificate),
        hosts=hosts_of(certificate),
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
    )


def hosts_of(certificate: x509.Certificate | x509.CertificateSigningRequest) -> tuple[str, ...]:
    """The DNS names, then the addresses, that the certificate may serve or a request asks for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    addresses = names.get_values_for_type(x509.IPAddress)
    return (*names.get_values_for_type(x509.DNSName), *map(str, addresses))


def common_name(name: x509.Name) -> str:
    """What people call the thing: its common name, or all of it where there is none."""
    common = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(common[0].value) if common else name.rfc4514_string()


def _check_files(
    *, ca: Path, cert: Path, key: Path, now: float
) -> tuple[list[x509.Certificate] | None, list[Problem]]:
    problems: list[Problem] = []
    roots = _try(read_chain, ca, problems)
    chain = _try(read_chain, cert, problems)
    private = _try(_read_key, key, problems)
    for path, certificate in ((ca, roots), (cert, chain)):
        if certificate and (wrong := facts_of(certificate[0]).validity_problem(now=now)):
            problems.append(_at(path, wrong))
    if chain and private is not None and chain[0].public_key() != private.public_key():
        problems.append(_at(key, f"is not the key of {cert}"))
    if chain and roots and _root_of(chain, roots) is None:
        issuer = common_name(chain[0].issuer)
        problems.append(_at(cert, f"was signed by {issuer!r}, not by the authority in {ca}"))
    return chain, problems


def _try(read: Callable[[Path], _T], path: Path, problems: list[Problem]) -> _T | None:
    try:
        return read(path)
    except (Invalid, Unknown) as error:
        problems.append(_at(path, error.message.removeprefix(f"{path}: ")))
        return None


def _at(path: Path, message: str) -> Problem:
    return Problem(path=str(path), message=message)


def _read_key(path: Path) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(read_bytes(path), password=None)
    except TypeError as error:
        raise Invalid(f"{path}: the key is encrypted; store it without a passphrase") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Invalid(f"{path}: holds no private key in PEM form") from error


def _root_of(
    chain: Sequence[x509.Certificate], roots: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    current = chain[0]
    for _ in range(_MAX_CHAIN):
        if (root := _signer(current, roots)) is not None:
            return root
        above = _signer(current, [c for c in chain[1:] if c != current])
        if above is None:
            return None
        current = above
    return None


def _signer(
    certificate: x509.Certificate, candidates: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    return next((c for c in candidates if _signed_by(certificate, c)), None)


def _signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _is_ca(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _usages(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        listed = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(USAGES.get(usage, usage.dotted_string) for usage in listed)


def _day(at: float) -> str:
    return dt.datetime.fromtimestamp(at, tz=dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
