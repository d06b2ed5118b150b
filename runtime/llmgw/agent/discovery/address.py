"""Who this node is and where it is reached: names, management address and its interface."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from llmgw.agent.discovery import netlink
from llmgw.config.settings import AgentSettings
from llmgw.domain import names
from llmgw.errors import Invalid, Unreachable
from llmgw.kit import addresses
from llmgw.kit.addresses import Address

_AGENT_PORT = 7443


@dataclass(frozen=True, slots=True)
class Identity:
    """What a node is called, and the address that its engines listen on."""

    node_id: str
    hostname: str
    mgmt_addr: str
    mgmt_interface: str


def identity(settings: AgentSettings, *, hostname: str) -> Identity:
    """What the settings say, the rest from this machine; ``hostname`` is its own name for itself.

    ``Invalid`` for a name that cannot be a node's, ``Unreachable`` when no way leads to any server.
    """
    node_id = settings.node_id or hostname
    if not names.NODE_NAME.fullmatch(node_id):
        raise Invalid(f"{node_id!r} cannot be a node's name; set node_id in the agent's settings")
    mgmt_addr = settings.mgmt_addr or _toward([settings.server, *settings.servers])
    return Identity(
        node_id=node_id,
        hostname=settings.hostname or hostname,
        mgmt_addr=mgmt_addr,
        mgmt_interface=settings.mgmt_interface or interface_of(mgmt_addr),
    )


def local_address_toward(server: Address) -> str:
    """The address that the kernel would send from; nothing is sent. ``Unreachable`` if none."""
    try:
        found = socket.getaddrinfo(server.host, server.port or _AGENT_PORT, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, target = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise Unreachable(f"no way leads to {server}: {error.strerror or error}") from error


def interface_of(address: str) -> str:
    """The network interface that holds an address, or nothing; all of 127/8 is the loopback's."""
    try:
        wanted = ipaddress.ip_address(address)
    except ValueError:
        return ""
    held = dict(netlink.held_addresses())
    if wanted in held:
        return held[wanted]
    if wanted.is_loopback:
        return held.get(ipaddress.ip_address("127.0.0.1"), "")
    return ""


def warnings(mgmt_addr: str) -> tuple[str, ...]:
    """What is wrong with an address that somebody wrote; one that is not known yet is well."""
    reason = _why_not_held(mgmt_addr) if mgmt_addr else ""
    if not reason:
        return ()
    said = f"engines cannot listen on the management address {mgmt_addr} ({reason})"
    return (f"{said}; set mgmt_addr to an address that this machine has",)


def is_held(address: str) -> bool:
    """Whether this machine has an address now; one may vanish with its interface, and come back."""
    return not _why_not_held(address)


def _why_not_held(address: str) -> str:
    try:
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, place = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(place)
    except (OSError, UnicodeError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""


def _toward(servers: Sequence[str]) -> str:
    """The address toward the first server that a way leads to."""
    written = list(dict.fromkeys(server for server in servers if server))
    if not written:
        raise Invalid("neither a server nor mgmt_addr is set, so this node has no address")
    failures: list[str] = []
    for server in written:
        try:
            return local_address_toward(_parsed(server))
        except Unreachable as error:
            failures.append(error.message)
    raise Unreachable(f"{'; '.join(failures)}; set mgmt_addr in the agent's settings")


def _parsed(server: str) -> Address:
    """The host and port of ``host:7443``, ``http://host:7443`` or a bare host."""
    bare = server.partition("://")[2] or server
    bare = bare.rstrip("/")
    with contextlib.suppress(Invalid):
        return addresses.parse(bare)
    return Address(host=bare.removeprefix("[").removesuffix("]"), port=_AGENT_PORT)
