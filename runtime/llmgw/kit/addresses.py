"""Network addresses as people write them: ``:8080``, ``10.0.0.5:8080``, ``[::1]:8080``."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from llmgw.errors import Invalid


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a TCP port; an empty host means all addresses, port 0 means any free port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_wildcard(self) -> bool:
        """Stands for every address of the machine, of one family or of both."""
        return self.host in {"", "0.0.0.0", "::"}  # noqa: S104

    def overlaps(self, other: Address) -> bool:
        """One socket on each could not be open at the same time."""
        if self.port != other.port or self.port == 0:
            return False
        return self.host == other.host or self.is_wildcard or other.is_wildcard

    def __str__(self) -> str:
        """As it is written in settings."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse(text: str) -> Address:
    """Read ``host:port``, ``[v6]:port`` or ``:port``; ``Invalid`` says what is wrong with it."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise Invalid(f"{text!r} is no address: write host:port, [v6 address]:port or :port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise Invalid(f"{text!r} is no address: put the v6 address in brackets, as in [::1]:8080")
    return Address(host="" if host == "*" else host, port=int(port))
