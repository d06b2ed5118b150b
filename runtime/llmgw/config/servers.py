"""The addresses at which an agent finds its control planes; plaintext only by name; pure."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.config.contradictions import Contradiction
from llmgw.config.settings import AgentSettings
from llmgw.errors import Invalid
from llmgw.kit import addresses
from llmgw.kit.addresses import Address

DEFAULT_PORT = 7443


def listed(settings: AgentSettings) -> tuple[str, ...]:
    """Every address once, with scheme and port, in the order in which they are tried.

    A bare ``host:port`` is spoken to under TLS; without certificates it is one on this machine, in
    plaintext: ``contradictions`` lets no other pass.
    """
    usual = "https" if settings.tls else "http"
    full: dict[str, None] = {}
    for _, text in _written(settings):
        scheme, _, rest = text.rpartition("://")
        full[f"{scheme or usual}://{_address(rest)}"] = None
    return tuple(full)


def contradictions(settings: AgentSettings) -> Iterator[Contradiction]:
    """What is wrong with the addresses, or between them and the certificates."""
    written = list(_written(settings))
    if not written:
        message = "is required: the agent port of a control plane, such as gw.example.com:7443"
        yield Contradiction(("server", "servers"), message)
    for path, text in written:
        wrong = _wrong(text, has_certificates=settings.tls is not None)
        if wrong is not None:
            yield Contradiction((path, "tls"), wrong)


def _written(settings: AgentSettings) -> Iterator[tuple[str, str]]:
    if settings.server:
        yield "server", settings.server.rstrip("/")
    for place, text in enumerate(settings.servers):
        yield f"servers[{place}]", text.rstrip("/")


def _wrong(text: str, *, has_certificates: bool) -> str | None:
    scheme, separator, rest = text.rpartition("://")
    if separator and scheme not in {"http", "https"}:
        return f"{text!r} is not host:port, http://host:port or https://host:port"
    try:
        address = _address(rest)
    except Invalid as error:
        return error.message
    if not address.host or not address.port:
        return f"{text!r} names no host and port to connect to"
    if scheme == "http" and has_certificates:
        return f"{text!r} is plaintext, but tls has certificates: write https:// or remove tls"
    if scheme == "https" and not has_certificates:
        return f"{text!r} needs certificates: give tls ca, cert and key"
    if not scheme and not has_certificates and not address.is_loopback:
        return f"{text!r} needs certificates: give tls, or write http://{text} for plaintext"
    return None


def _address(text: str) -> Address:
    is_bare = ":" not in text or text.endswith("]")
    return addresses.parse(f"{text}:{DEFAULT_PORT}" if is_bare else text)
