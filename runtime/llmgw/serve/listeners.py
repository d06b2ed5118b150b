"""Listening sockets: which address is meant, who has it already, one socket for each worker.

Each worker gets a socket of its own on one address (SO_REUSEPORT), so that the kernel spreads
connections; the caller keeps all of them open, so that connections waiting at a dead worker go to
its successor.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

from llmgw.errors import AlreadyHeld, Invalid
from llmgw.kit.addresses import Address
from llmgw.serve import holders

BACKLOG = 4096
"""Connections that may wait at one socket; the kernel's own bound (somaxconn) is the same."""


def bind(address: Address, *, key: str) -> socket.socket:
    """One listening socket; raises ``AlreadyHeld`` naming the holder, ``Invalid`` when not ours."""
    return _listening(address, key=key, is_shared=False)


def bind_shared(
    address: Address, *, key: str, count: int, kept: Sequence[socket.socket] = ()
) -> list[socket.socket]:
    """``count`` sockets on one address, ``kept`` (of an earlier server) first, the rest bound.

    SO_REUSEPORT would let a stranger's socket share the address in silence, so with nothing kept
    the address is first tried alone.
    """
    sockets = list(kept[:count])
    try:
        if not sockets:
            address = _tried_alone(address, key=key)
        else:
            address = Address(host=address.host, port=port_of(sockets[0]))
        while len(sockets) < count:
            sockets.append(_listening(address, key=key, is_shared=True))
    except BaseException:
        for made in sockets[len(kept) :]:
            made.close()
        raise
    return sockets


def port_of(sock: socket.socket) -> int:
    """The port that a socket got."""
    return int(sock.getsockname()[1])


def is_at(sock: socket.socket, address: Address) -> bool:
    """Whether a socket listens where ``address`` says; port 0 accepts every port of that host."""
    family, sockaddr = _resolved(address, key="listen")
    bound = sock.getsockname()
    return sock.family == family and bound[0] == sockaddr[0] and address.port in (0, bound[1])


def shown(sock: socket.socket) -> str:
    """``http://host:port`` as a person on this machine can use it."""
    host, port = sock.getsockname()[:2]
    at = Address(host=host, port=port)
    return f"http://{Address(host='127.0.0.1', port=port) if at.is_wildcard else at}"


def _tried_alone(address: Address, *, key: str) -> Address:
    probe = _listening(address, key=key, is_shared=False)
    try:
        return Address(host=address.host, port=port_of(probe))
    finally:
        probe.close()


def _listening(address: Address, *, key: str, is_shared: bool) -> socket.socket:
    family, sockaddr = _resolved(address, key=key)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family is socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(bool(address.host)))
        sock.bind(sockaddr)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _refused(address, key=key, error=error) from error
    return sock


def _resolved(address: Address, *, key: str) -> tuple[socket.AddressFamily, tuple[str, int]]:
    if not address.host:
        if _has_v6():
            return socket.AF_INET6, ("::", address.port)
        return socket.AF_INET, ("0.0.0.0", address.port)  # noqa: S104  ":port" asks for all addresses
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise Invalid(
            f"{key}: {address.host!r} is no address of any kind: {error.strerror}"
        ) from error
    family, _, _, _, sockaddr = found[0]
    return family, (str(sockaddr[0]), int(sockaddr[1]))


def _has_v6() -> bool:
    if not socket.has_dualstack_ipv6():
        return False
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _refused(address: Address, *, key: str, error: OSError) -> Exception:
    if error.errno == errno.EADDRINUSE:
        holder = holders.listener(address.port)
        by = f" by {holder}" if holder else ""
        return AlreadyHeld(f"{key}: {address} is in use{by}; stop it, or set another address")
    if error.errno == errno.EADDRNOTAVAIL:
        return Invalid(f"{key}: {address.host} is no address of this machine")
    if error.errno == errno.EACCES:
        return Invalid(
            f"{key}: only root may listen on port {address.port}; choose a port above 1023"
        )
    return Invalid(f"{key}: cannot listen on {address}: {error.strerror}")
