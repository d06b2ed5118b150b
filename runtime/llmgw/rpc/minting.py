"""Makes certificates and requests for them, in memory: names, dates, usages, signatures.

``authority`` and ``enrolment`` call it with keys that they hold; it reads and writes no file.
Everything is ECDSA on P-256, and certificates carry all that strict verifiers ask for.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from llmgw.domain import names
from llmgw.errors import Denied, Invalid
from llmgw.rpc import certificates

PURPOSES = {word: purpose for purpose, word in certificates.USAGES.items()}
"""What a certificate may be used for, by our word for it."""

_SKEW = dt.timedelta(hours=1)
"""Certificates begin this much earlier: the clock of a fresh machine is often wrong."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a certificate is to say: whose it is, for which hosts, for what, for how long."""

    name: str
    hosts: Sequence[str]
    usage: str
    days: int


@dataclass(frozen=True, slots=True)
class Authority:
    """A root and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class Requested:
    """What somebody asks for, proven to hold the key."""

    name: str
    hosts: tuple[str, ...]
    public: ec.EllipticCurvePublicKey


def root(key: ec.EllipticCurvePrivateKey, *, name: str, now: float, days: int) -> x509.Certificate:
    """A self-signed root that may sign leaves and no further authority."""
    subject = _common_name(name)
    builder = _builder(subject=subject, issuer=subject, public=key.public_key(), now=now, days=days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return _sign(builder, usage=_usage(is_ca=True), issuer_key=key)


def leaf(
    wish: Leaf, *, public: ec.EllipticCurvePublicKey, authority: Authority, now: float
) -> x509.Certificate:
    """A certificate over somebody's key."""
    builder = _builder(
        subject=_common_name(wish.name),
        issuer=authority.certificate.subject,
        public=public,
        now=now,
        days=wish.days,
    )
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_alternative_names(wish.hosts), critical=False)
        .add_extension(x509.ExtendedKeyUsage([PURPOSES[wish.usage]]), critical=False)
    )
    return _sign(builder, usage=_usage(is_ca=False), issuer_key=authority.key)


def request(
    key: ec.EllipticCurvePrivateKey, *, name: str, hosts: Sequence[str]
) -> x509.CertificateSigningRequest:
    """A request for a certificate, signed by the key that it is for."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_common_name(name))
    return builder.add_extension(_alternative_names(hosts), critical=False).sign(
        key, hashes.SHA256()
    )


def read_request(pem: bytes) -> Requested:
    """A request in PEM form that its own key has signed; ``Invalid`` otherwise."""
    try:
        read = x509.load_pem_x509_csr(pem)
        public = read.public_key()
    except ValueError as error:
        raise Invalid("this is no request in PEM form; llmgw ctl cert request makes one") from error
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise Invalid("the request's key is no ECDSA key; llmgw ctl cert request makes one")
    if not read.is_signature_valid:
        raise Invalid("the request is not signed by the key that it is for: it was changed")
    return Requested(
        name=certificates.common_name(read.subject),
        hosts=certificates.hosts_of(read),
        public=public,
    )


def checked_host(host: str) -> str:
    """A host name or an address as certificates hold it; ``Invalid`` for anything else."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    if names.NODE_NAME.fullmatch(host):
        return host
    raise Invalid(f"{host!r} is no host: give a name or an address, without scheme or port")


def checked_node(node_id: str, *, may_be_reserved: bool = False) -> str:
    """A name that a node may have; ``Invalid`` or, for a reserved one, ``Denied``."""
    if not names.NODE_NAME.fullmatch(node_id):
        raise Invalid(f"{node_id!r} is no node name: letters, digits, dots and dashes, at most 63")
    if node_id.lower() in names.RESERVED_NODE_NAMES and not may_be_reserved:
        raise Denied(f"{node_id!r} is reserved and cannot be the name of a node; choose another")
    return node_id


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


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative_names(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_general_name(host) for host in dict.fromkeys(hosts)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
