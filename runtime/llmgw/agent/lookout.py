"""Looks whether another control plane leads by now, while the own one still holds its stream.

A leader that was frozen, or cut from its store, keeps its streams and does not know better. The
session runs this beside each conversation. A newer leader fences the old one at once: its orders
are refused from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import NoReturn

import grpc
from grpc import aio

from llmgw.agent.commands import Terms
from llmgw.config.servers import ServerAddress
from llmgw.errors import LlmgwError, Standby
from llmgw.kit import logs
from llmgw.rpc import channels
from llmgw.rpc.v1 import agent_pb2 as pb
from llmgw.rpc.v1 import agent_pb2_grpc

WITHIN_S = 3.0
"""A control plane that takes longer to say whether it leads does not lead anybody well."""
_CLOSE_S = 1.0
_JITTER = 0.2

_log = logs.get(__name__)


class Lookout:
    """Asks the control planes of this node that it is not connected to."""

    def __init__(
        self,
        choices: Sequence[ServerAddress],
        *,
        tls: channels.TlsFiles | None,
        every_s: float,
        draw: Callable[[], float],
        prefer: Callable[[ServerAddress], None],
    ) -> None:
        """``prefer`` is told where to dial; ``draw`` is uniform in [0, 1)."""
        self._choices = choices
        self._tls = tls
        self._every_s = every_s
        self._draw = draw
        self._prefer = prefer
        self._channels: dict[ServerAddress, aio.Channel] = {}

    async def watch(self, *, besides: ServerAddress, terms: Terms) -> NoReturn:
        """Ends by ``Standby`` once another control plane than ``besides`` leads in a newer term."""
        others = [address for address in self._choices if address != besides]
        try:
            while True:
                await asyncio.sleep(self._every_s * (1 - _JITTER + 2 * _JITTER * self._draw()))
                terms_seen = await asyncio.gather(*map(self._term_of, others))
                term, leader = max(
                    zip(terms_seen, others, strict=True), default=(0, besides), key=_first
                )
                if term > terms.highest:
                    terms.check(term)
                    self._prefer(leader)
                    raise Standby(
                        f"{leader} leads in term {term} by now, so {besides} does not any more"
                    )
        finally:
            await self._close(*self._channels)

    async def _term_of(self, address: ServerAddress) -> int:
        """The term in which a control plane leads; 0 where it does not, or does not answer."""
        try:
            stub = agent_pb2_grpc.AgentServiceStub(self._channel(address))
            reply: pb.StandingReply = await stub.Standing(pb.StandingRequest(), timeout=WITHIN_S)
        except (aio.AioRpcError, grpc.RpcError, LlmgwError) as error:
            _log.debug("standing_unknown", server=str(address), error=repr(error))
            # A fresh channel next time: an old one waits longer and longer between its dials.
            await self._close(address)
            return 0
        return reply.term if reply.leads else 0

    def _channel(self, address: ServerAddress) -> aio.Channel:
        if address not in self._channels:
            tls = None if address.is_plaintext else self._tls
            self._channels[address] = channels.open_channel(address.target, tls=tls)
        return self._channels[address]

    async def _close(self, *addresses: ServerAddress) -> None:
        for address in addresses:
            channel = self._channels.pop(address, None)
            if channel is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CLOSE_S):
                        await channel.close(grace=None)


def _first(pair: tuple[int, ServerAddress]) -> int:
    return pair[0]
