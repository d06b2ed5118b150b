"""Serves gateways on other hosts: lets in who may, tells of each table, hears what they see.

Leadership comes before anything else, then identity, then the gateway's welcome. A gateway that has
a table already is told of another only once this control plane knows its fleet: a new leader's
first tables lack whatever has not registered yet, and all of it serves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from grpc import aio

from llmgw.control.gateways.sightings import Sightings
from llmgw.control.gateways.watches import Gateway, Watch, Watches
from llmgw.domain import names, route_changes
from llmgw.domain.routes import RouteTable
from llmgw.errors import (
    IdentityMismatch,
    Internal,
    Invalid,
    LlmgwError,
    Standby,
    Unauthenticated,
)
from llmgw.kit import logs
from llmgw.rpc import statuses, wire_routes, wire_sights
from llmgw.rpc.v1 import gateway_pb2 as pb
from llmgw.rpc.v1 import gateway_pb2_grpc

_LOOK_AGAIN_S = 0.25
"""So often it is asked whether the fleet is known, while it is not."""

_log = logs.get(__name__)

_Context = aio.ServicerContext[Any, Any]
OnRefused = Callable[[str, str, str, LlmgwError], None]
"""Told of each refusal: the caller's address, its certificate's name, whose name it used, why."""


class Leadership(Protocol):
    """Whether this control plane may say what is served."""

    def is_leader(self) -> bool:
        """A standby serves no gateways."""
        ...

    def term(self) -> int:
        """The leader's term; 0 where no terms are kept."""
        ...

    def heard(self, term: int) -> None:
        """A gateway has seen this term; one above our own says that another has led since."""
        ...


class Tables(Protocol):
    """The tables that the reconciler publishes."""

    def current(self) -> RouteTable:
        """The table that holds now."""
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """All that is known of gateways: their open calls, and what they saw."""

    watches: Watches
    sightings: Sightings


class WatchService(gateway_pb2_grpc.GatewayServiceServicer):
    """The gRPC service that gateways call."""

    def __init__(
        self,
        *,
        tables: Tables,
        known: Known,
        leadership: Leadership,
        knows_fleet: Callable[[], bool],
        must_identify: bool,
        on_refused: OnRefused,
    ) -> None:
        """``must_identify``: a gateway without a client certificate is refused.

        ``knows_fleet`` is false while nodes are awaited that may be serving.
        """
        self._tables = tables
        self._watches = known.watches
        self._sightings = known.sightings
        self._leadership = leadership
        self._knows_fleet = knows_fleet
        self._must_identify = must_identify
        self._on_refused = on_refused

    def join(self, server: aio.Server) -> None:
        """Be served on this port."""
        gateway_pb2_grpc.add_GatewayServiceServicer_to_server(self, server)

    def end_all(self, reason: LlmgwError) -> None:
        """End every gateway's call."""
        self._watches.end_all(reason)

    async def WatchRoutes(self, request: pb.WatchRequest, context: _Context) -> None:  # type: ignore[override] # noqa: N802 - the stub knows iterators only; we write on the context
        """One gateway's call, to its end."""
        try:
            await self._watched(request, context)
        except LlmgwError as error:
            await self._refuse(request.name, context, error)
        except Exception as error:  # noqa: BLE001 - the outermost edge of one call
            _log.error("watch_failed", peer=context.peer(), error=repr(error), exc=error)
            await statuses.refuse(context, Internal("the control plane failed; see its log"))

    async def Report(self, request: pb.GatewayReport, context: _Context) -> pb.ReportAnswer:  # noqa: N802 - see WatchRoutes
        """What a gateway sees; it hears how its wishes stand."""
        try:
            self._admit(request.name, context)
            report = wire_sights.unpack_report(request)
            self._watches.heard(report.name, instance=report.instance)
            return wire_sights.pack_answer(self._sightings.hear(report))
        except LlmgwError as error:
            await self._refuse(request.name, context, error)
        except Exception as error:  # noqa: BLE001 - the outermost edge of one call
            _log.error("report_failed", peer=context.peer(), error=repr(error), exc=error)
            await statuses.refuse(context, Internal("the control plane failed; see its log"))

    async def _watched(self, request: pb.WatchRequest, context: _Context) -> None:
        self._admit(request.name, context)
        self._check_term(request)
        gateway = Gateway(
            name=request.name,
            instance=request.instance,
            peer=context.peer(),
            version=request.version,
        )
        watch = self._watches.open(gateway)
        self._sightings.opened(gateway)
        _log.info("gateway_watches", gateway=gateway.name, peer=gateway.peer, table=request.number)
        try:
            await context.write(wire_routes.pack_welcome(term=self._leadership.term()))
            await self._tell(watch, context, has_table=request.number > 0)
        finally:
            if self._watches.close(watch):
                _log.info("gateway_gone", gateway=gateway.name)
                self._sightings.closed(gateway.name)

    def _admit(self, name: str, context: _Context) -> None:
        if not self._leadership.is_leader():
            raise Standby("this control plane is a standby; another one leads")
        if not names.is_gateway_name(name):
            raise Invalid(f"{name!r} is no name of a gateway")
        own, shown = names.gateway_certificate(name), common_name(context)
        if shown and shown != own:
            raise IdentityMismatch(
                f"certificate CN {shown!r} does not match {own!r}, that of the gateway {name!r}"
            )
        if not shown and self._must_identify:
            raise Unauthenticated(f"gateway {name!r} showed no client certificate")

    def _check_term(self, request: pb.WatchRequest) -> None:
        own = self._leadership.term()
        self._leadership.heard(request.term)
        if 0 < own < request.term:
            raise Standby(
                f"this control plane is a standby: it leads in term {own}, and gateway "
                f"{request.name!r} has seen term {request.term}"
            )

    async def _tell(self, watch: Watch, context: _Context, *, has_table: bool) -> None:
        """Tell of each table until the call ends; raises what ended it."""
        sent: RouteTable | None = None
        while True:
            is_due = not has_table or self._knows_fleet()
            table = self._tables.current()
            if is_due and table.number and table is not sent:
                await context.write(self._update(sent, table))
                sent = table
            await watch.due(within_s=None if is_due else _LOOK_AGAIN_S)

    def _update(self, sent: RouteTable | None, table: RouteTable) -> pb.RouteUpdate:
        term = self._leadership.term()
        change = None if sent is None else route_changes.between(sent, table)
        if change is None:
            return wire_routes.pack_snapshot(table, term=term)
        return wire_routes.pack_change(change, term=term)

    async def _refuse(self, name: str, context: _Context, error: LlmgwError) -> NoReturn:
        self._on_refused(context.peer(), common_name(context), name, error)
        _log.warning(
            "gateway_call_ended",
            gateway=name,
            peer=context.peer(),
            code=error.code,
            reason=error.message,
        )
        await statuses.refuse(context, error)


def common_name(context: _Context) -> str:
    """Whom the client's certificate names; empty without one."""
    found = context.auth_context().get("x509_common_name", ())
    return ", ".join(name.decode() for name in found)
