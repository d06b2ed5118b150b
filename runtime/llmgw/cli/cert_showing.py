"""How certificates are shown: facts as JSON values for programs, as lines for people."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict

from llmgw.rpc.certificates import CertificateFacts


def document(facts: CertificateFacts) -> dict[str, object]:
    """All facts as JSON values; moments in UTC."""
    return {
        **asdict(facts),
        "not_before_at": moment(facts.not_before_at),
        "not_after_at": moment(facts.not_after_at),
    }


def lines(facts: CertificateFacts) -> list[tuple[str, str | None]]:
    """The same by name, for a person."""
    purpose = "authority" if facts.is_ca else " and ".join(facts.usages)
    return [
        ("name", facts.subject),
        ("for", purpose or None),
        ("hosts", ", ".join(facts.hosts) or None),
        ("signed by", facts.issuer),
        ("valid from", moment(facts.not_before_at)),
        ("valid until", moment(facts.not_after_at)),
        ("serial", facts.serial),
        ("sha256", facts.fingerprint),
    ]


def moment(at: float) -> str:
    """A moment in UTC as ``2027-01-15T08:00:00Z``."""
    return dt.datetime.fromtimestamp(at, tz=dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
