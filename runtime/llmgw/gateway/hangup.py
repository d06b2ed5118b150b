"""Tell a client that left from one that only said it will send no more.

Both look the same: the end of the client's bytes.  ``connection`` asks here when that comes while
an answer is awaited.  The client is sent an interim ``100 Continue``, which everybody who still
listens must skip, however many come (RFC 9110 §15.2); the kernel of one that left answers it with a
reset, and that shows in the state of our socket within one round trip.  Who is there stays for a
while and may leave later, which nothing tells of by itself: so it is asked again, ever more rarely.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterator

from llmgw.gateway import headers

_LOOK_AFTER_S = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28)
_ASK_AGAIN_AFTER_S = (0.5, 1.0, 2.0, 5.0, 12.0, 28.0)
"""The last of them again and again; a look takes 2.5 s more."""

_STATES_OF_THE_LIVING = frozenset({1, 8})  # ESTABLISHED and CLOSE_WAIT of include/net/tcp_states.h


class Hangup:
    """The question whether a client is still there, asked until it left or ``stop``."""

    __slots__ = ("_is_awaited", "_looks", "_on_gone", "_pauses", "_timer", "_transport")

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        on_gone: Callable[[], None],
        is_awaited: Callable[[], bool],
    ) -> None:
        """``on_gone`` is called at most once, never from within this call.

        Once the answer is not awaited any more, because it has begun, nothing may come between.
        """
        self._transport = transport
        self._on_gone = on_gone
        self._is_awaited = is_awaited
        self._pauses = itertools.chain(_ASK_AGAIN_AFTER_S, itertools.repeat(_ASK_AGAIN_AFTER_S[-1]))
        self._looks: Iterator[float] = iter(())
        self._timer: asyncio.TimerHandle | None = None
        self._ask()

    def stop(self) -> None:
        """The question no longer matters."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self) -> None:
        self._timer = None
        if not self._is_awaited():
            return
        self._looks = iter(_LOOK_AFTER_S)
        self._transport.write(headers.CONTINUE)
        self._look_later()

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = next(self._looks, None)
        if wait_s is not None:
            self._timer = loop.call_later(wait_s, self._look)
        else:
            self._timer = loop.call_later(next(self._pauses), self._ask)

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
