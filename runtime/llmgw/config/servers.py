"""The addresses at which agents and gateways find control planes; plaintext only by name; pure.

Loading checks them with all other settings and writes them out whole; who dials reads them again
by the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from llmgw.config.contradictions import Contradiction
from llmgw.config.gateway_host import GatewayHostSettings
from llmgw.config.settings import AgentSettings
from llmgw.errors import Invalid
from llmgw.kit import addresses
from llmgw.kit.addresses import Address

DEFAULT_PORT = 7443
Joining: TypeAlias = AgentSettings | GatewayHostSettings
"""Who dials control planes."""

_HOST = re.compile(r"[A-Za-z0-9._:%-]+")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One control plane: where its agent port is, and whether certificates are used."""

    address: Address
    is_plaintext: bool

    @property
    def target(self) -> str:
        """``host:port``, as gRPC takes it."""
        return str(self.address)

    def __str__(self) -> str:
        """As it is written in settings, with its scheme."""
        return f"{'http' if self.is_plaintext else 'https'}://{self.address}"


def read(text: str, *, has_certificates: bool) -> ServerAddress:
    """One address as somebody wrote it; ``Invalid`` says what is wrong with it.

    One without a scheme follows the certificates; plaintext to another machine must be asked for
    by writing ``http://``, and is refused where there are certificates.
    """
    scheme, separator, rest = text.strip().rstrip("/").rpartition("://")
    if separator and scheme not in {"http", "https"}:
        raise Invalid(f"{text!r} is not host:port, http://host:port or https://host:port")
    address = _address(rest)
    if not _HOST.fullmatch(address.host) or not address.port:
        raise Invalid(f"{text!r} names no host and port to connect to")
    if scheme == "http" and has_certificates:
        raise Invalid(
            f"{text!r} is plaintext, but tls has certificates: write https:// or remove tls"
        )
    if scheme == "https" and not has_certificates:
        raise Invalid(f"{text!r} needs certificates: give tls ca, cert and key")
    if not scheme and not has_certificates and not address.is_loopback:
        raise Invalid(
            f"{text!r} needs certificates: give tls, or write http://{text} for plaintext"
        )
    return ServerAddress(address, is_plaintext=not has_certificates)


def listed(settings: Joining) -> tuple[str, ...]:
    """Every address once, with scheme and port, in the order in which they are tried.

    Called once ``contradictions`` has found none.
    """
    has_certificates = settings.tls is not None
    found = (read(text, has_certificates=has_certificates) for _, text in _written(settings))
    return tuple(dict.fromkeys(map(str, found)))


def contradictions(settings: Joining) -> Iterator[Contradiction]:
    """What is wrong with the addresses, or between them and the certificates."""
    written = list(_written(settings))
    if not written:
        message = "is required: the agent port of a control plane, such as gw.example.com:7443"
        yield Contradiction(("server", "servers"), message)
    for path, text in written:
        try:
            read(text, has_certificates=settings.tls is not None)
        except Invalid as error:
            yield Contradiction((path, "tls"), error.message)


def _written(settings: Joining) -> Iterator[tuple[str, str]]:
    if settings.server:
        yield "server", settings.server.rstrip("/")
    for place, text in enumerate(settings.servers):
        yield f"servers[{place}]", text.rstrip("/")


def _address(text: str) -> Address:
    is_bare = ":" not in text or text.endswith("]")
    return addresses.parse(f"{text}:{DEFAULT_PORT}" if is_bare else text)
