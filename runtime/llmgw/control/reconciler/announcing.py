"""What gateways are told: what runs, and what was published before and may still serve.

The loop announces after each pass. A control plane that begins, or comes to lead, knows no node
yet: the endpoints of the table before stand until their nodes are back or had the time to be.
"""

from __future__ import annotations

from collections.abc import Collection

from llmgw.control.reconciler import routing
from llmgw.control.reconciler.routing import Routes
from llmgw.domain.routes import Endpoint, EndpointState, RouteTable
from llmgw.domain.snapshots import Bounds, Snapshot
from llmgw.domain.traffic import Traffic
from llmgw.kit import logs
from llmgw.kit.clock import Clock

_SET_S = 5.0
"""A time of day that differs by more than this was set."""

_log = logs.get(__name__)


class Announcing:
    """The published table and the one before this process or lead began."""

    def __init__(self, last: RouteTable, *, clock: Clock, bounds: Bounds) -> None:
        """``last`` is what was published last; ``bounds`` say how long its nodes have."""
        self.routes = Routes(last)
        self._clock = clock
        self._bounds = bounds
        self._before = last
        self._awaits_since = clock.monotonic()
        self._epoch_at = clock.wall() - self._awaits_since
        self._created_at = min(
            (model.created_at for model in last.models.values()), default=int(clock.wall())
        )

    def served(self) -> frozenset[str]:
        """The replicas that were published as ready before."""
        ready = EndpointState.READY
        return frozenset(e.endpoint_id for e in self._before.endpoints if e.state is ready)

    def let_go(self) -> None:
        """What is published stands from now on for what was there before."""
        self._before = self.routes.current()

    def await_anew(self, *, now: float) -> None:
        """The nodes of the table before have time to come back from ``now`` on."""
        self._awaits_since = now

    def carried(
        self, registered: Collection[str], *, traffic: Traffic, is_patient: bool
    ) -> tuple[Endpoint, ...]:
        """The endpoints of the table before whose nodes are still awaited.

        They have the time after which a node is lost, and longer where clients get answers from
        them; while ``is_patient`` nobody is given up.
        """
        bounds, now = self._bounds, self._clock.monotonic()
        awaited_s = now - self._awaits_since
        carried = routing.carried_over(self._before, registered=registered)
        if is_patient or awaited_s < bounds.lost_after_s:
            return carried
        if awaited_s >= bounds.unheard_most * bounds.lost_after_s:
            return ()
        return tuple(
            one
            for one in carried
            if (seen := traffic.endpoints.get(one.endpoint_id)) is not None
            and seen.is_answering(now=now, within_s=bounds.answered_within_s)
        )

    def announce(
        self, snapshot: Snapshot, *, is_patient: bool, refused: Collection[str], term: int
    ) -> None:
        """Publish the table of this moment, unless it says what the last one said."""
        table = routing.build(
            snapshot,
            carried=self.carried(
                snapshot.cluster.nodes.keys(), traffic=snapshot.traffic, is_patient=is_patient
            ),
            refused=refused,
            created_at=self._created_at,
            epoch_at=self._epoch(),
            term=term,
        )
        if self.routes.publish(table):
            _log.info(
                "routes_published",
                number=self.routes.current().number,
                endpoints=len(table.endpoints),
                models=len(table.models),
            )

    def _epoch(self) -> float:
        """When the monotonic clock began, by the time of day; anew once somebody has set that."""
        epoch_at = self._clock.wall() - self._clock.monotonic()
        # The smaller differences of every look would publish a table each time.
        if abs(epoch_at - self._epoch_at) > _SET_S:
            self._epoch_at = epoch_at
        return self._epoch_at
