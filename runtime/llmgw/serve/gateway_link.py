"""Keeps a gateway on a host of its own in conversation with the control plane that leads.

Dials one control plane after the other until one lets it in, and again when that ends. Whether any
of them is there is no concern of the requests: those go on with the last table.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from grpc import aio

from llmgw.agent import dialling, refusals
from llmgw.config.gateway_host import GatewayHostSettings
from llmgw.config.servers import ServerAddress
from llmgw.domain import names
from llmgw.errors import Internal, LlmgwError, Superseded
from llmgw.kit import ids, logs
from llmgw.kit.backoff import Backoff
from llmgw.kit.clock import Clock, SystemClock
from llmgw.kit.tasks import Tasks
from llmgw.rpc import channels
from llmgw.rpc.v1 import gateway_pb2_grpc
from llmgw.serve.followed_routes import FollowedRoutes
from llmgw.serve.gateway_following import Following, Seen, Sight
from llmgw.serve.liveroutes import LiveRoutes

_LEAVE_S = 2.0

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """How the conversation stands; ``refusal`` is why the last one ended or did not begin."""

    address: str
    is_open: bool
    refusal: str


class GatewayLink:
    """The gateway's side of the conversation, from ``start`` to ``close``."""

    def __init__(
        self,
        settings: GatewayHostSettings,
        *,
        routes: LiveRoutes,
        clock: Clock | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """``routes`` gets each table; ``SettingsInvalid`` when an address cannot be dialled."""
        choices = dialling.addresses(settings.servers, has_tls=settings.tls is not None)
        backoff = Backoff(base_s=settings.reconnect_base, max_s=settings.reconnect_max)
        self._settings = settings
        self._routes = routes
        self._clock = clock or SystemClock()
        self._draw = draw
        self._instance = ids.token(8)
        self._redial = dialling.Redial(choices, backoff=backoff)
        self._followed = FollowedRoutes(routes)
        self._tasks = Tasks(owner="gateway-link")
        self._open: Following | None = None
        self._opened_at: float | None = None
        self._refusal = ""
        self._complaints = dialling.Complaints()

    @property
    def status(self) -> LinkStatus:
        """How the conversation stands now."""
        return LinkStatus(
            address=str(self._redial.address),
            is_open=self._open is not None,
            refusal=self._refusal,
        )

    def start(self, seen: Seen) -> None:
        """Converse from now on, and tell what these workers see."""
        sight = Sight(seen, name=self._settings.name, instance=self._instance, clock=self._clock)
        self._tasks.spawn("dial", self._dial_on(sight))

    async def close(self) -> None:
        """Say that this gateway leaves, where anybody listens, and end the conversation."""
        if self._open is not None:
            # A task of its own: gRPC answers with a cancellation where the channel just closes.
            leaving = self._tasks.spawn("leave", self._leave(self._open))
            await asyncio.wait({leaving}, timeout=_LEAVE_S)
        await self._tasks.close()

    @staticmethod
    async def _leave(following: Following) -> None:
        with contextlib.suppress(aio.AioRpcError):
            await following.leave(within_s=_LEAVE_S)

    async def _dial_on(self, sight: Sight) -> NoReturn:
        while True:
            address = self._redial.address
            ended = await self._attempt(address, sight)
            now = self._clock.monotonic()
            pause_s = self._redial.ended(
                served_s=self._served_s(ended, now=now), now=now, draw=self._draw()
            )
            self._complain(ended, address=address, pause_s=pause_s)
            self._opened_at = None
            await asyncio.sleep(pause_s)

    async def _attempt(self, address: ServerAddress, sight: Sight) -> LlmgwError:
        """Hold one conversation to its end; why it ended."""
        try:
            await self._converse(address, sight)
        except LlmgwError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a gateway that gives up dialling never hears again
            _log.error("link_failed", server=str(address), error=repr(error), exc=error)
            return Internal(f"{address}: the conversation failed by our own fault: {error!r}")

    async def _converse(self, address: ServerAddress, sight: Sight) -> NoReturn:
        tls = None if address.is_plaintext else self._settings.tls
        channels.check_own_pair(
            tls,
            name=names.gateway_certificate(self._settings.name),
            refusal="not dialled, because this gateway would be refused",
            now=self._clock.wall(),
        )
        channel = channels.open_channel(address.target, tls=tls)
        following = Following(
            gateway_pb2_grpc.GatewayServiceStub(channel),
            followed=self._followed,
            sight=sight,
            current=self._routes.current,
        )
        try:
            await following.open()
            self._begin(following, address)
            await following.hold(report_every_s=self._settings.report_interval)
        except aio.AioRpcError as status:
            raise refusals.explain(status, address=address, tls=tls) from status
        finally:
            self._open = None
            await channels.close(channel)

    def _begin(self, following: Following, address: ServerAddress) -> None:
        self._open, self._opened_at = following, self._clock.monotonic()
        self._refusal = ""
        self._complaints.clear()
        _log.info("watches_routes", server=str(address), term=self._followed.term or None)

    def _served_s(self, ended: LlmgwError, *, now: float) -> float | None:
        if self._opened_at is None or isinstance(ended, Superseded):
            return None
        return now - self._opened_at

    def _complain(self, ended: LlmgwError, *, address: ServerAddress, pause_s: float) -> None:
        """Log why a conversation ended or did not begin; the same again only once in a while."""
        self._refusal = ended.message
        if not self._complaints.is_due(address, ended.message, now=self._clock.monotonic()):
            return
        _log.warning(
            "control_plane_not_reached" if self._opened_at is None else "control_plane_lost",
            server=str(address),
            reason=ended.message,
            retry_s=pause_s,
            serves_from_table=self._followed.number or None,
        )
