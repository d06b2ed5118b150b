"""Have the kernel end TCP connections whose other end has vanished without a word.

A host that loses its power or its network sends nothing: whoever waits for it waits for ever.
Set on a listening socket it holds for the connections that are accepted from it.
"""

from __future__ import annotations

import socket

_ASKS = 3


def end_idle_within(connection: socket.socket, *, within_s: float) -> None:
    """End it when nothing is under way and the question who is there has no answer for so long."""
    half_s = max(round(within_s / 2), 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, half_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(half_s // _ASKS, 1))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _ASKS)


def end_within(connection: socket.socket, *, within_s: float) -> None:
    """And also when what was sent is not taken for so long."""
    end_idle_within(connection, within_s=within_s)
    within_ms = max(round(within_s * 1000), 1000)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, within_ms)
