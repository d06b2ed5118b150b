"""Decides where the agent dials next and how long it waits before; pure.

On any failure the next address is tried at once, and a pause comes only when all were tried. For a
while after a served session the pauses stay short, because then the server most likely restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from llmgw.errors import Problem, SettingsInvalid
from llmgw.kit.backoff import Backoff
from llmgw.rpc import channels

DEFAULT_PORT = 7443
HURRY_S = 15.0
"""So long after a served session the pauses stay short."""
HELD_S = 2.0
"""A session shorter than this did not serve: a server that drops everybody must not be stormed."""

_HURRIED = Backoff(base_s=0.25, max_s=1.0)


@dataclass(frozen=True, slots=True)
class Address:
    """One control plane: ``host:port``, and whether certificates are used."""

    target: str
    is_plaintext: bool

    def __str__(self) -> str:
        """As it is written in settings."""
        return f"{'http' if self.is_plaintext else 'https'}://{self.target}"


def addresses(entries: Sequence[str], *, has_tls: bool) -> tuple[Address, ...]:
    """The control planes in the order of trying; ``SettingsInvalid`` with everything that is wrong.

    An entry without a scheme follows the certificates; plaintext to another machine must be asked
    for by writing ``http://``, and is refused where certificates are configured.
    """
    found: dict[Address, None] = {}
    problems: list[Problem] = []
    for entry in entries:
        try:
            found[_address(entry, has_tls=has_tls)] = None
        except ValueError as error:
            problems.append(Problem(path="server", message=f"{entry!r} {error}"))
    if not entries:
        problems.append(Problem(path="server", message="is missing: host:port of a control plane"))
    if problems:
        raise SettingsInvalid("the agent cannot dial as it is configured", problems)
    return tuple(found)


class Redial:
    """Remembers what was tried since the last success."""

    def __init__(self, choices: Sequence[Address], *, backoff: Backoff) -> None:
        """``choices`` is not empty; ``backoff`` counts full rounds over all of them."""
        self._choices = choices
        self._backoff = backoff
        self._index = 0
        self._tried = 0
        self._rounds = 0
        self._hurried_rounds = 0
        self._hurry_until = float("-inf")

    @property
    def address(self) -> Address:
        """Where to dial now."""
        return self._choices[self._index]

    def ended(self, *, served_s: float | None, now: float, draw: float) -> float:
        """Seconds to wait before dialling ``address``, now another one if there are several.

        ``served_s`` is how long this node was registered in the session that ended, ``None`` for
        not at all; ``draw`` is uniform in [0, 1).
        """
        if served_s is not None and served_s >= HELD_S:
            self._tried = self._rounds = self._hurried_rounds = 0
            self._hurry_until = now + HURRY_S
        self._index = (self._index + 1) % len(self._choices)
        self._tried += 1
        if self._tried < len(self._choices):
            return 0.0
        self._tried = 0
        if now < self._hurry_until:
            self._hurried_rounds += 1
            return _HURRIED.delay_s(attempt=self._hurried_rounds - 1, draw=draw)
        self._rounds += 1
        return self._backoff.delay_s(attempt=self._rounds - 1, draw=draw)


def _address(entry: str, *, has_tls: bool) -> Address:
    scheme, separator, rest = entry.strip().rpartition("://")
    host, port = _host_and_port(rest)
    is_plaintext = _is_plaintext(scheme if separator else "", host=host, has_tls=has_tls)
    return Address(target=f"{host}:{port}", is_plaintext=is_plaintext)


def _host_and_port(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    else:
        if parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
            host = None
    if not host:
        raise ValueError("is no address; write host:port, https://host:port or http://host:port")
    return f"[{host}]" if ":" in host else host, port or DEFAULT_PORT


def _is_plaintext(scheme: str, *, host: str, has_tls: bool) -> bool:
    match scheme:
        case "https" if not has_tls:
            raise ValueError("asks for TLS: give tls.ca, tls.cert and tls.key")
        case "http" if has_tls:
            raise ValueError("is plaintext, but certificates are configured: remove one of them")
        case "" if not has_tls and not channels.is_loopback(host):
            raise ValueError("has no certificates: give tls.ca, tls.cert and tls.key, or http://")
        case "" | "http" | "https":
            return not has_tls
    raise ValueError(f"has the scheme {scheme!r}: https or http is meant")
