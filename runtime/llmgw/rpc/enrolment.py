"""A machine's own side of getting a certificate: its key, its request, and whether it needs one.

The key is born here and never leaves; ``authority.sign`` answers the request elsewhere. Called by
``llmgw ctl cert request`` and by ``llmgw server init``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from llmgw.errors import Denied, Invalid, Unknown
from llmgw.rpc import certificates, keyfiles, minting
from llmgw.rpc.certificates import CertificateFacts

RENEW_DAYS = 30
_DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class Files:
    """Where a machine keeps its three files."""

    ca: Path
    cert: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the machine's certificate should be."""

    name: str
    usage: str
    files: Files
    hosts: tuple[str, ...] = ()
    renew_days: int = RENEW_DAYS
    ca_sha256: str = ""
    """Fingerprint of the one authority that may be believed here; empty: whichever lies there."""
    is_forced: bool = False
    has_exact_hosts: bool = False
    """Drop hosts of the present certificate that are not named again."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether the present certificate does, and if not why; ``hosts`` are the next one's.

    A server's certificate of a foreign authority is somebody's choice: it is kept, and said.
    """

    is_good: bool
    reasons: tuple[str, ...]
    hosts: tuple[str, ...]
    facts: CertificateFacts | None = None
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class Application:
    """What there is to be sent to the authority; no request when nothing is needed."""

    standing: Standing
    has_new_key: bool
    csr_pem: str | None


def apply(wanted: Wanted, *, now: float, is_trial: bool = False) -> Application:
    """Judge what is there and, if it does not do, make a request, and the key where there is none.

    A trial writes nothing: without a key it has no request to show.
    """
    standing = judge(wanted, now=now)
    has_key = wanted.files.key.exists()
    if standing.is_good or (is_trial and not has_key):
        return Application(standing, has_new_key=not standing.is_good, csr_pem=None)
    if not is_trial:
        keyfiles.make_directory(wanted.files.key.parent, mode=0o755)
    key, _ = keyfiles.own_key(wanted.files.key)
    request = minting.request(key, name=wanted.name, hosts=standing.hosts)
    pem = request.public_bytes(Encoding.PEM).decode()
    return Application(standing, has_new_key=not has_key, csr_pem=pem)


def judge(wanted: Wanted, *, now: float) -> Standing:
    """How the present certificate stands; ``Denied`` beside a root that was not the one named."""
    _check_root(wanted)
    facts = _present(wanted.files.cert)
    problems = certificates.pair_problems(
        ca=wanted.files.ca, cert=wanted.files.cert, key=wanted.files.key, now=now
    )
    is_foreign = facts is not None and _is_of_another(wanted.files)
    hosts = _next_hosts(wanted, None if is_foreign else facts)
    reasons = [str(problem) for problem in problems]
    if facts is not None:
        reasons += [f"{wanted.files.cert}: {r}" for r in _unfit(wanted, facts, hosts, now=now)]
    if wanted.is_forced:
        reasons.append("a new one was asked for")
    is_left = is_foreign and wanted.usage == "server" and not wanted.is_forced
    return Standing(
        is_good=is_left or not reasons,
        reasons=tuple(reasons),
        hosts=hosts,
        facts=facts,
        is_foreign=is_foreign,
    )


def _unfit(
    wanted: Wanted, facts: CertificateFacts, hosts: tuple[str, ...], *, now: float
) -> Iterator[str]:
    if facts.subject != wanted.name:
        yield f"names {facts.subject!r} and not {wanted.name!r}"
    if wanted.usage not in facts.usages:
        yield f"is not for a {wanted.usage}"
    if missing := [host for host in hosts if host not in facts.hosts]:
        yield f"does not name {', '.join(missing)}"
    if wanted.has_exact_hosts and (over := [h for h in facts.hosts if h not in hosts]):
        yield f"still names {', '.join(over)}"
    left_days = (facts.not_after_at - now) / _DAY_S
    if 0 <= left_days < wanted.renew_days:
        yield f"expires in {left_days:.0f} days, which is less than {wanted.renew_days}"


def _next_hosts(wanted: Wanted, facts: CertificateFacts | None) -> tuple[str, ...]:
    if wanted.usage == "client":
        return (wanted.name,)
    earlier = () if facts is None or wanted.has_exact_hosts else facts.hosts
    named = [minting.checked_host(host) for host in (wanted.name, *wanted.hosts)]
    return tuple(dict.fromkeys((*named, *earlier)))


def _check_root(wanted: Wanted) -> None:
    expected = wanted.ca_sha256.lower().replace(":", "")
    if not expected or not wanted.files.ca.exists():
        return
    roots = certificates.read_chain(wanted.files.ca)
    if expected not in {certificates.facts_of(root).fingerprint for root in roots}:
        raise Denied(
            f"{wanted.files.ca} is not the authority with the fingerprint {expected[:16]}…; "
            "take it from the machine that has the authority, and nothing else"
        )


def _is_of_another(files: Files) -> bool:
    try:
        return certificates.root_of(ca=files.ca, cert=files.cert) is None
    except (Unknown, Invalid):
        return False  # without a root nothing is foreign; pair_problems says what is wrong


def _present(cert: Path) -> CertificateFacts | None:
    try:
        return certificates.inspect(cert)
    except (Unknown, Invalid):
        return None  # pair_problems says what is wrong with it
