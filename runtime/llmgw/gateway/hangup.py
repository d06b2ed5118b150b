"""Tell a client that left from one that only said it will send no more.

Both look the same: the end of the client's bytes.  ``connection`` asks here when that comes while
an answer is awaited.  The client is sent an interim ``100 Continue``, which everybody who still
listens must skip (RFC 9110 §15.2); the kernel of one that left answers it with a reset, and that
shows in the state of our socket within one round trip.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from llmgw.gateway import headers

_LOOK_AFTER_S = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28)
_STATES_OF_THE_LIVING = frozenset({1, 8})  # ESTABLISHED and CLOSE_WAIT of include/net/tcp_states.h


class Hangup:
    """One question whether a client is still there; asked until it is answered or ``stop``ped."""

    __slots__ = ("_looks", "_on_gone", "_timer", "_transport")

    def __init__(self, transport: asyncio.Transport, *, on_gone: Callable[[], None]) -> None:
        """``on_gone`` is called at most once, never from within this call."""
        self._transport = transport
        self._on_gone = on_gone
        self._looks = iter(_LOOK_AFTER_S)
        self._timer: asyncio.TimerHandle | None = None
        transport.write(headers.CONTINUE)
        self._look_later()

    def stop(self) -> None:
        """The question no longer matters."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        wait_s = next(self._looks, None)
        self._timer = None
        if wait_s is not None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._look)

    def _look(self) -> None:
        if _is_alive(self._transport):
            self._look_later()
        else:
            self._timer = None
            self._on_gone()


def _is_alive(transport: asyncio.Transport) -> bool:
    client: socket.socket = transport.get_extra_info("socket")
    state = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    return state[0] in _STATES_OF_THE_LIVING
