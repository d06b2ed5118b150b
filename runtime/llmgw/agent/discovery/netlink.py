"""The addresses of this machine and their interfaces, asked of the kernel over netlink.

That is the only way to them without a program or a package that knows second addresses
(rtnetlink(7), ``RTM_GETADDR``).
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
from collections.abc import Iterator

_RTM_GETADDR, _NLM_REQUEST_DUMP = 22, 0x301
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_HEADER, _ADDRESS, _ATTRIBUTE = (
    struct.Struct("=IHHII"),
    struct.Struct("=BBBBI"),
    struct.Struct("=HH"),
)
_TIMEOUT_S = 2.0

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def held_addresses() -> Iterator[tuple[IpAddress, str]]:
    """Every address of this machine with its interface; nothing when the kernel is not asked."""
    with contextlib.suppress(OSError), _netlink() as asked:
        request = _ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        size = _HEADER.size + len(request)
        asked.send(_HEADER.pack(size, _RTM_GETADDR, _NLM_REQUEST_DUMP, 1, 0) + request)
        while True:
            for kind, body in _messages(asked.recv(65536)):
                if kind in {_NLMSG_DONE, _NLMSG_ERROR}:
                    return
                yield from _held(body)


def _netlink() -> socket.socket:
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    made.settimeout(_TIMEOUT_S)
    return made


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        size, kind, _, _, _ = _HEADER.unpack_from(data)
        if size < _HEADER.size:
            return
        yield kind, data[_HEADER.size : size]
        data = data[_aligned(size) :]


def _held(body: bytes) -> Iterator[tuple[IpAddress, str]]:
    _, _, _, _, index = _ADDRESS.unpack_from(body)
    values = dict(_attributes(body[_ADDRESS.size :]))
    packed = values.get(_IFA_LOCAL) or values.get(_IFA_ADDRESS)
    if packed:
        yield ipaddress.ip_address(packed), socket.if_indextoname(index)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(data)
        if size < _ATTRIBUTE.size:
            return
        yield kind, data[_ATTRIBUTE.size : size]
        data = data[_aligned(size) :]


def _aligned(size: int) -> int:
    return (size + 3) & ~3
