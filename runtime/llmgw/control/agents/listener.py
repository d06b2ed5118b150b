"""Opens and closes the port that agents dial."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from grpc import aio

from llmgw.control.agents.connections import Connections
from llmgw.control.agents.service import AgentService
from llmgw.errors import LlmgwError, Unavailable
from llmgw.kit import logs
from llmgw.kit.clock import Clock, SystemClock
from llmgw.rpc import certificates, channels
from llmgw.rpc.v1 import agent_pb2_grpc

_GRACE_S = 1.0

_log = logs.get(__name__)


class Guest(Protocol):
    """Another service on this port."""

    def join(self, server: aio.Server) -> None:
        """Be served, from before the port opens."""
        ...

    def end_all(self, reason: LlmgwError) -> None:
        """End every call that is under way."""
        ...


class Listener:
    """The agent port of one control plane."""

    def __init__(
        self,
        service: AgentService,
        *,
        connections: Connections,
        address: str,
        tls: channels.TlsFiles | None,
        clock: Clock | None = None,
        guests: Sequence[Guest] = (),
    ) -> None:
        """Plaintext without ``tls``; whether that may be is decided by who makes this."""
        self._clock = clock or SystemClock()
        self._connections = connections
        self._address = address
        self._tls = tls
        self._server = channels.make_server()
        self._guests = guests
        agent_pb2_grpc.add_AgentServiceServicer_to_server(service, self._server)
        for guest in guests:
            guest.join(self._server)

    async def start(self) -> int:
        """Listen; the port, which differs from the address's when that was 0. May raise."""
        self._check_own_pair()
        port = channels.bind(self._server, address=self._address, tls=self._tls)
        await self._server.start()
        _log.info("agents_listening", address=self._address, port=port, tls=self._tls is not None)
        return port

    async def close(self) -> None:
        """Tell every agent, so that it comes back soon, and stop within about a second."""
        reason = Unavailable("this control plane is stopping")
        self._connections.end_all(reason)
        for guest in self._guests:
            guest.end_all(reason)
        await self._server.stop(_GRACE_S)

    def _check_own_pair(self) -> None:
        """Say what will make agents turn away; the port opens all the same, to be mended later."""
        if self._tls is None:
            return
        for problem in certificates.check_server_pair(
            ca=Path(self._tls.ca),
            cert=Path(self._tls.cert),
            key=Path(self._tls.key),
            now=self._clock.wall(),
        ):
            _log.error("agents_will_refuse", problem=str(problem))
