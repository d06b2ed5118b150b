"""Joins what the control plane knows of gateways on other hosts with what its own host's see.

One a control plane: it is served on the agents' port, and the reconciler asks it for the traffic of
all gateways together.
"""

from __future__ import annotations

from collections.abc import Callable

from llmgw.control.agents.turned_away import Caller, TurnedAway
from llmgw.control.gateways.sightings import Sightings
from llmgw.control.gateways.watch_service import Known, Leadership, WatchService
from llmgw.control.gateways.watches import Watches
from llmgw.control.reconciler.ports import Gateways
from llmgw.domain import names
from llmgw.domain.routes import RouteTable
from llmgw.domain.status_views import GatewayView
from llmgw.domain.traffic import Traffic
from llmgw.errors import LlmgwError
from llmgw.gateway.ports import RouteSource
from llmgw.kit.clock import Clock


class RemoteGateways:
    """All gateways on other hosts."""

    def __init__(self, current: Callable[[], RouteTable], *, clock: Clock) -> None:
        """``current`` is the table that is published now."""
        self._watches = Watches(clock=clock)
        self._sightings = Sightings(current, clock=clock)

    def views(self) -> tuple[GatewayView, ...]:
        """Every gateway that is known."""
        return self._sightings.views()

    def served(
        self,
        routes: RouteSource,
        *,
        leadership: Leadership,
        knows_fleet: Callable[[], bool],
        must_identify: bool,
        turned_away: TurnedAway,
    ) -> WatchService:
        """The service that they call; each later table is told to them from now on."""

        def refused(peer: str, common_name: str, name: str, error: LlmgwError) -> None:
            own = names.gateway_certificate(name) if name else ""
            turned_away.note(Caller(peer, common_name=common_name, node_id=own), error)

        routes.subscribe(lambda _: self._watches.stir_all())
        return WatchService(
            tables=routes,
            known=Known(self._watches, self._sightings),
            leadership=leadership,
            knows_fleet=knows_fleet,
            must_identify=must_identify,
            on_refused=refused,
        )

    def beside(self, local: Gateways) -> AllGateways:
        """These and the gateways of this host."""
        return AllGateways(local, self._sightings)

    def stand_by(self, reason: LlmgwError) -> None:
        """Send them to the one that leads."""
        self._watches.end_all(reason)
        self._sightings.let_go()


class AllGateways:
    """Fits ``control.reconciler.ports.Gateways``: those of this host and of all others."""

    def __init__(self, local: Gateways, remote: Sightings) -> None:
        """Both are asked anew each time."""
        self._local = local
        self._remote = remote

    def traffic(self) -> Traffic:
        """See ``Gateways``."""
        return self._remote.joined(self._local.traffic())

    def subscribe(self, on_news: Callable[[], None]) -> Callable[[], None]:
        """See ``Gateways``."""
        ends = (self._local.subscribe(on_news), self._remote.subscribe(on_news))

        def end() -> None:
            for one in ends:
                one()

        return end

    def worked(self, endpoint_id: str, *, worked_at: float | None, looked_at: float) -> None:
        """See ``Gateways``."""
        self._local.worked(endpoint_id, worked_at=worked_at, looked_at=looked_at)
        self._remote.worked(endpoint_id, worked_at=worked_at, looked_at=looked_at)
