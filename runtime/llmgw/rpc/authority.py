"""The private certificate authority of a site: makes it, and issues what servers and nodes carry.

``llmgw ctl cert``, ``llmgw server init`` and the fleet's onboarding call it. A key is never
readable by others and never overwritten: issuing again keeps the key and the hosts that were named
before, and renews the dates. A key that was born elsewhere is signed for by its request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from llmgw.errors import Conflict, Denied, Unknown
from llmgw.kit import ids
from llmgw.rpc import certificates, issuances, keyfiles, minting
from llmgw.rpc.certificates import CertificateFacts
from llmgw.rpc.minting import Authority, Leaf, Requested

CA_CERT = "ca.pem"
CA_KEY = "ca.key"
CA_DAYS = 3650
LEAF_DAYS = 365
NODE_DAYS = 90
"""How long what is signed for a node's own key holds: onboarding renews it by itself."""


@dataclass(frozen=True, slots=True)
class Issued:
    """What lies where after an issue; ``is_renewed`` says that an earlier key was kept."""

    ca: Path
    cert: Path
    key: Path
    facts: CertificateFacts
    is_renewed: bool = False


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate for a key that lies elsewhere, and the root to believe it by."""

    certificate_pem: str
    ca_pem: str
    ca_sha256: str
    facts: CertificateFacts


@dataclass(frozen=True, slots=True)
class Order:
    """Who may be signed for: the name that was checked, what for, and from which machine."""

    name: str
    usage: str
    hosts: tuple[str, ...] = ()
    days: int = NODE_DAYS
    address: str = ""
    """Where the key lies; a living certificate of the name on another machine is in its way."""
    may_be_reserved: bool = False
    may_move: bool = False


def init_ca(directory: Path, *, now: float, days: int = CA_DAYS, name: str = "") -> Issued:
    """Make a new authority in ``directory``; ``Conflict`` if it already holds one.

    Without a ``name`` it gets one that differs from every other's, so that a person sees a mix-up.
    """
    cert_path, key_path = directory / CA_CERT, directory / CA_KEY
    if cert_path.exists():
        raise Conflict(f"{cert_path} exists; a new authority would cut off every node it serves")
    keyfiles.make_directory(directory, mode=0o700)
    key, is_kept = keyfiles.own_key(key_path)
    certificate = minting.root(key, name=name or f"llmgw CA {ids.token()}", now=now, days=days)
    keyfiles.write(cert_path, _pem(certificate), mode=0o644)
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
    checked = [minting.checked_host(host) for host in (name, *hosts)]
    wish = Leaf(name=name, hosts=checked, usage="server", days=days)
    return _issue(wish, directory=directory, out=out, now=now)


def issue_client(
    directory: Path, *, out: Path, node_id: str, now: float, days: int = LEAF_DAYS
) -> Issued:
    """A node's pair into ``out``; its common name is the node's identity everywhere."""
    minting.checked_node(node_id)
    wish = Leaf(name=node_id, hosts=[node_id], usage="client", days=days)
    return _issue(wish, directory=directory, out=out, now=now)


def sign(
    directory: Path, *, csr: bytes, order: Order, now: float, is_trial: bool = False
) -> Signed:
    """A certificate for the key of a request; the private key is never seen here.

    ``Denied`` when the request asks for another name or for hosts that it may not have,
    ``Conflict`` when another machine holds a living certificate of that name. A trial checks and
    signs like the real thing, and remembers nothing.
    """
    request = minting.read_request(csr)
    hosts = _granted_hosts(request, order)
    authority = _authority(directory)
    _check_not_elsewhere(directory, order, now=now)
    wish = Leaf(name=order.name, hosts=hosts, usage=order.usage, days=order.days)
    certificate = minting.leaf(wish, public=request.public, authority=authority, now=now)
    facts = certificates.facts_of(certificate)
    if not is_trial:
        _remember(directory, facts, now=now, address=order.address)
    return Signed(
        certificate_pem=_pem(certificate).decode(),
        ca_pem=_pem(authority.certificate).decode(),
        ca_sha256=certificates.facts_of(authority.certificate).fingerprint,
        facts=facts,
    )


def _issue(wish: Leaf, *, directory: Path, out: Path, now: float) -> Issued:
    authority = _authority(directory)
    keyfiles.make_directory(out, mode=0o755)
    ca_path = _place_ca(authority.certificate, out)
    cert_path, key_path = out / f"{wish.name}.pem", out / f"{wish.name}.key"
    earlier = _earlier_hosts(cert_path, usage=wish.usage)
    key, is_kept = keyfiles.own_key(key_path)
    full = Leaf(wish.name, hosts=[*wish.hosts, *earlier], usage=wish.usage, days=wish.days)
    certificate = minting.leaf(full, public=key.public_key(), authority=authority, now=now)
    keyfiles.write(cert_path, _pem(certificate), mode=0o644)
    facts = certificates.facts_of(certificate)
    _remember(directory, facts, now=now)
    return Issued(ca=ca_path, cert=cert_path, key=key_path, facts=facts, is_renewed=is_kept)


def _granted_hosts(request: Requested, order: Order) -> list[str]:
    if request.name != order.name:
        raise Denied(f"the request is for {request.name!r} and not for {order.name!r}")
    if order.usage == "client":
        minting.checked_node(order.name, may_be_reserved=order.may_be_reserved)
        foreign = [host for host in (*request.hosts, *order.hosts) if host != order.name]
        if foreign:
            raise Denied(
                f"node {order.name!r} may not be {', '.join(foreign)}; ask for its name only"
            )
        return [order.name]
    wanted = (order.name, *order.hosts, *request.hosts)
    return list(dict.fromkeys(minting.checked_host(host) for host in wanted))


def _check_not_elsewhere(directory: Path, order: Order, *, now: float) -> None:
    if not order.address or order.may_move:
        return
    held = issuances.live_elsewhere(
        directory, name=order.name, usage=order.usage, address=order.address, now=now
    )
    if held is not None:
        raise Conflict(
            f"{held.address} holds a living certificate of {order.name!r} (serial {held.serial}); "
            f"two machines may not have one name; if it moved to {order.address}, say --moved"
        )


def _remember(directory: Path, facts: CertificateFacts, *, now: float, address: str = "") -> None:
    entry = issuances.Entry(
        serial=facts.serial,
        name=facts.subject,
        usage=" ".join(facts.usages),
        hosts=facts.hosts,
        issued_at=now,
        not_after_at=facts.not_after_at,
        fingerprint=facts.fingerprint,
        address=address,
    )
    issuances.add(directory, entry)


def _authority(directory: Path) -> Authority:
    try:
        return Authority(_first(directory / CA_CERT), keyfiles.load_key(directory / CA_KEY))
    except Unknown as error:
        raise Unknown(
            f"{error.message}; make the authority first: llmgw ctl cert init-ca --dir {directory}"
        ) from error


def _first(path: Path) -> x509.Certificate:
    return certificates.read_chain(path)[0]


def _place_ca(ca: x509.Certificate, out: Path) -> Path:
    path = out / CA_CERT
    if not path.exists():
        keyfiles.write(path, _pem(ca), mode=0o644)
    elif ca not in certificates.read_chain(path):
        raise Conflict(f"{path} belongs to another authority; give another --out")
    return path


def _earlier_hosts(path: Path, *, usage: str) -> tuple[str, ...]:
    if not path.exists():
        return ()
    certificate = _first(path)
    usages = certificates.facts_of(certificate).usages
    if usage not in usages:
        raise Conflict(f"{path} is a {' and '.join(usages)} certificate; give another --out")
    return certificates.hosts_of(certificate)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)
