"""The route table that follows from catalog and replicas, and who is told when it changes.

A ready replica is an endpoint, and stays one while a restarted agent looks at it again. One that
drains is listed as draining until its stop is asked. After a restart of the control plane the
endpoints of the last table stand until their node has spoken or has had the time to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from llmgw.control.reconciler import expecting, wanting
from llmgw.domain import listing
from llmgw.domain.catalog import Catalog, Model
from llmgw.domain.replicas import Replica, ReplicaState
from llmgw.domain.routes import (
    Endpoint,
    EndpointState,
    ModelState,
    RoutedModel,
    RouteTable,
)
from llmgw.domain.snapshots import Failures, Snapshot
from llmgw.kit import logs
from llmgw.kit.subscribers import Subscribers

LOADING_RETRY_S = 10
LONGEST_RETRY_S = 60

_log = logs.get(__name__)


class Routes:
    """The current table; fits the gateway's ``RouteSource``."""

    def __init__(self, table: RouteTable) -> None:
        """Begin with a table, such as the last one of an earlier process."""
        self._table = table
        self._subscribers: Subscribers[Callable[[RouteTable], None]] = Subscribers()

    def current(self) -> RouteTable:
        """The table that holds now."""
        return self._table

    def subscribe(self, callback: Callable[[RouteTable], None]) -> Callable[[], None]:
        """Have ``callback`` called with each later table; call what is returned to end that."""
        return self._subscribers.add(callback)

    def publish(self, table: RouteTable) -> bool:
        """Make a table current under the next number, unless it says what the current one says."""
        numbered = replace(table, number=self._table.number)
        if numbered == self._table:
            return False
        self._table = replace(table, number=self._table.number + 1)
        for callback in self._subscribers:
            try:
                callback(self._table)
            except Exception as error:  # noqa: BLE001 - one reader's fault is not the others'
                _log.error("route_subscriber_failed", error=repr(error), exc=error)
        return True


def build(
    snapshot: Snapshot,
    *,
    carried: Sequence[Endpoint],
    refused: Collection[str],
    created_at: int,
    epoch_at: float = 0.0,
    term: int,
) -> RouteTable:
    """The table of one instant, without a number.

    ``carried`` are endpoints of an earlier table whose nodes may still return, ``refused`` models
    that the last pass could not place, ``created_at`` what ``/v1/models`` shows as their age,
    ``epoch_at`` the second since 1970 at which the snapshot's clock began.
    """
    catalog = snapshot.catalog
    replicas = sorted(snapshot.cluster.replicas.values(), key=lambda r: r.replica_id)
    own = [e for replica in replicas if (e := _endpoint(replica, catalog)) is not None]
    endpoints = (*own, *_still_valid(carried, catalog, besides={e.endpoint_id for e in own}))
    serving = {name for e in endpoints if e.state is EndpointState.READY for name in e.models}
    running = wanting.counting(replicas)
    return RouteTable(
        term=term,
        endpoints=endpoints,
        models={
            name: listing.routed(
                model, catalog=catalog, state=ModelState.READY, created_at=created_at
            )
            if name in serving
            else _unserved(
                model,
                snapshot,
                held=running.get(name, ()),
                is_refused=name in refused,
                created_at=created_at,
                epoch_at=epoch_at,
            )
            for name, model in catalog.models.items()
        },
        canonical=catalog.canonical,
    )


def carried_over(last: RouteTable, *, registered: Collection[str]) -> tuple[Endpoint, ...]:
    """Endpoints of the last table whose node has not registered since."""
    return tuple(e for e in last.endpoints if e.node_id and e.node_id not in registered)


def _endpoint(replica: Replica, catalog: Catalog) -> Endpoint | None:
    model = catalog.models.get(replica.model)
    profile = None if model is None else model.profile(replica.profile)
    leader, url, state = replica.leader, replica.url, _endpoint_state(replica)
    if model is None or leader is None or url is None or state is None:
        return None
    return Endpoint(
        endpoint_id=replica.replica_id,
        url=url,
        models=model.names,
        # Its profile may have left the catalog: then it serves until another one does.
        engine=replica.engine if profile is None else profile.engine,
        node_id=leader.node_id,
        pool=replica.pool,
        weight=1.0 if profile is None else profile.weight or 1.0,
        state=state,
        upstream_model=model.name,
        context_length=model.context_length,
        capabilities=model.capabilities,
    )


def _endpoint_state(replica: Replica) -> EndpointState | None:
    """Nothing for a replica that has never served, or whose end has been asked for."""
    if replica.ready_at is None or any(s.is_stop_asked for s in replica.shards):
        return None
    match replica.state:
        case ReplicaState.READY | ReplicaState.STARTING:
            return EndpointState.READY
        case ReplicaState.DRAINING:
            return EndpointState.DRAINING
        case ReplicaState.FAILED | ReplicaState.STOPPED:
            return None


def _still_valid(
    carried: Sequence[Endpoint], catalog: Catalog, *, besides: Collection[str]
) -> list[Endpoint]:
    return [
        e
        for e in carried
        if e.endpoint_id not in besides and any(name in catalog.canonical for name in e.models)
    ]


def _unserved(
    model: Model,
    snapshot: Snapshot,
    *,
    held: Sequence[Replica],
    is_refused: bool,
    created_at: int,
    epoch_at: float,
) -> RoutedModel:
    """A model without an endpoint: why it has none, and when it will probably have one."""
    failures = _resting(model.name, snapshot)
    state = _waiting(
        model,
        running=len(held),
        asked=snapshot.asked,
        is_refused=is_refused,
        is_resting=failures is not None,
    )
    waiting = listing.routed(
        model,
        catalog=snapshot.catalog,
        state=state,
        created_at=created_at,
        retry_after_s=_retry_after_s(model.name, snapshot),
        failure="" if failures is None else failures.error,
    )
    ready_at = expecting.soonest(held, snapshot)
    if ready_at is None:
        return waiting
    return replace(waiting, ready_expected_at=round(epoch_at + ready_at))


def _waiting(
    model: Model, *, running: int, asked: Collection[str], is_refused: bool, is_resting: bool
) -> ModelState:
    """What a request for a model without an endpoint is told."""
    if running:
        return ModelState.LOADING
    is_on_demand = model.scaling is not None and model.scaling.is_on_demand and model.profiles
    is_wanted = wanting.wanted(model, running=0, asked=asked) > 0
    if is_resting and (is_wanted or is_on_demand):
        return ModelState.FAILED
    if is_wanted:
        return ModelState.NOT_PLACED if is_refused else ModelState.LOADING
    return ModelState.ON_DEMAND if is_on_demand else ModelState.NOT_PLACED


def _resting(name: str, snapshot: Snapshot) -> Failures | None:
    """The failures after which nothing of a model is started for now."""
    failures = snapshot.cluster.failures.get(name)
    return failures if failures is not None and failures.until_at > snapshot.now else None


def _retry_after_s(name: str, snapshot: Snapshot) -> int:
    """When to ask again; constant while nothing changes, or each pass would publish anew."""
    failures = _resting(name, snapshot)
    if failures is None:
        return LOADING_RETRY_S
    wait_s = math.ceil(failures.until_at - failures.failed_at)
    return min(LONGEST_RETRY_S, max(LOADING_RETRY_S, wait_s))
