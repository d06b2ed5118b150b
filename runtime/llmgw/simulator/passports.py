"""Certificates for simulated nodes: one pair a node, signed by a site's own authority.

Made before the first node dials. The files lie in a folder of the simulation and go with it; the
authority remembers them among its others, so that nobody wonders who was signed for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llmgw.kit.clock import Clock
from llmgw.rpc import authority

_DAYS = 1


@dataclass(frozen=True, slots=True)
class Passport:
    """Where a node's PEM files lie; fits the channel's ``TlsFiles``."""

    ca: str
    cert: str
    key: str


def issue(node_id: str, *, directory: Path, out: Path, clock: Clock) -> Passport:
    """A node's pair into ``out``; ``Unknown`` when ``directory`` holds no authority."""
    issued = authority.issue_client(
        directory, out=out, node_id=node_id, now=clock.wall(), days=_DAYS
    )
    return Passport(ca=str(issued.ca), cert=str(issued.cert), key=str(issued.key))
