"""The gateway as a whole: listens, watches the time, takes route tables over, drains.

``serve`` makes one ``Gateway`` a worker process (or one in ``llmgw up``), with listening sockets
and a ``RouteSource``.  It runs on whatever event loop is there.  A worker process calls
``gc.freeze()`` after ``start``: what lives then lives as long as the process.
"""

from __future__ import annotations

import asyncio
import functools
import random
import socket
from collections.abc import Callable, Sequence
from typing import cast

from llmgw.config.carrying import RouterSettings
from llmgw.domain.routes import ModelState, RouteTable
from llmgw.gateway import samples, scraping
from llmgw.gateway.admission import Admission
from llmgw.gateway.affinity import Affinity
from llmgw.gateway.board import LoadBoard
from llmgw.gateway.books import Books
from llmgw.gateway.breaker import BreakerRules
from llmgw.gateway.charging import Charges
from llmgw.gateway.connection import ClientConnection
from llmgw.gateway.costs import CostRules
from llmgw.gateway.crowding import Crowd, Guest
from llmgw.gateway.descriptors import Descriptors
from llmgw.gateway.doors import Doors, Place
from llmgw.gateway.endpoints import Registry
from llmgw.gateway.event_stream import EventStream
from llmgw.gateway.exchange import BodyBudget
from llmgw.gateway.holding import Loads
from llmgw.gateway.local import LocalRoutes, Readiness
from llmgw.gateway.metering import Meter
from llmgw.gateway.outgoing import Outgoing
from llmgw.gateway.pipeline import Pipeline
from llmgw.gateway.pool import Shared
from llmgw.gateway.ports import RouteSource
from llmgw.gateway.receipts import LEAST_BYTES, Receipts
from llmgw.gateway.reception import Reception
from llmgw.gateway.request_log import RequestLog
from llmgw.gateway.samples import EndpointStats, GatewayStats
from llmgw.gateway.scraping import Scraper
from llmgw.gateway.silence import Patience
from llmgw.gateway.surroundings import Surroundings
from llmgw.kit import ids, logs, vanishing
from llmgw.kit.clock import Clock, SystemClock
from llmgw.kit.metrics import Sample
from llmgw.kit.tasks import Tasks

_log = logs.get(__name__)

_LOOK_EVERY_S = 0.25
_EXPIRE_EVERY_S = 5.0
_BACKLOG = 4096
_CUT_WITHIN_S = 5.0


class Gateway:
    """The data plane of one process: ``start`` once, then ``drain`` or ``close`` once."""

    def __init__(
        self,
        *,
        settings: RouterSettings,
        routes: RouteSource,
        request_log: RequestLog | None = None,
        clock: Clock | None = None,
        place: Place | None = None,
        doors: Doors | None = None,
    ) -> None:
        """Without ``request_log`` requests are counted and not written down.

        Without ``place`` this process is the only worker.
        """
        doors = doors or Doors()
        self._routes = routes
        self._clock = clock or SystemClock()
        self._request_log = request_log
        self._new_id = ids.RequestIds()
        self._tasks = Tasks(owner="gateway")
        self._servers: list[asyncio.Server] = []
        self._unsubscribe: Callable[[], None] | None = None
        self._table: RouteTable | None = None
        self._table_taken_at = 0.0
        self._scrape_interval_s = settings.scrape_interval
        self._is_stopping = False
        self._place = place or Place(LoadBoard.private(now=self._clock.monotonic))
        self._outgoing = Outgoing()
        self._descriptors = Descriptors(now=self._clock.monotonic, most=doors.most_files)
        self._registry = self._make_registry(settings)
        self._affinity = Affinity(settings)
        self._meter = Meter(write=request_log.add if request_log is not None else None)
        self._receipts = _receipts(settings, self._clock)
        self._event_stream = EventStream.of_file(settings.events_file, clock=self._clock)
        self._access = doors.access
        self._account_figures = doors.access.figures if doors.access is not None else tuple
        self._house = doors.house
        self._charges = self._make_charges()
        self._books = self._make_books()
        self._admission = Admission(doors.admission, now=self._clock.monotonic)
        self._loads = Loads(doors.on_demand, doors.load_requests)
        self._scraper = self._make_scraper()
        self._pipeline = self._make_pipeline(settings)
        self._reception = self._make_reception(settings)

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Serve on listening sockets that the caller bound; they are closed by ``drain``."""
        if self._request_log is not None:
            self._request_log.start()
        if self._event_stream is not None:
            self._event_stream.start()
        if self._access is not None:
            self._access.look()
            self._access.start()
        self._unsubscribe = self._routes.subscribe(self._take_over)
        self._take_over(self._routes.current())
        loop = asyncio.get_running_loop()
        for listener in sockets:
            # Accepted connections inherit it; asyncio sets it only where the protocol was named.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            vanishing.end_within(listener, within_s=self._reception.stream.write_timeout_s)
            self._servers.append(
                await loop.create_server(self._accept, sock=listener, backlog=_BACKLOG)
            )
        self._tasks.spawn("watch", self._watch())
        if self._scrape_interval_s:
            self._tasks.spawn("scrape", self._scraper.run())

    async def drain(self, grace_s: float, *, delay_s: float = 0.0) -> None:
        """Say not ready for ``delay_s``, accept no more, let requests end for ``grace_s``, cut."""
        self._is_stopping = True
        await asyncio.sleep(delay_s)
        for server in self._servers:
            server.close()
        self._reception.is_draining = True
        for connection in tuple(self._reception.connections):
            connection.leave_if_idle()
        if not await self._emptied(within_s=grace_s):
            _log.warning("requests_cut", inflight=self._meter.inflight)
            for connection in tuple(self._reception.connections):
                self._guarded(connection, connection.cancel)
            await self._emptied(within_s=_CUT_WITHIN_S)
        await self.close()

    async def close(self) -> None:
        """End everything now; may be called again."""
        self._is_stopping = True
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        for server in self._servers:
            server.close()
        for connection in tuple(self._reception.connections):
            connection.abort()
        await self._emptied(within_s=_CUT_WITHIN_S)  # each closes the account of its request
        self._admission.close()
        await self._tasks.close()
        for live in self._registry.all():
            live.pool.close()
            live.probes.close()
        if self._request_log is not None:
            await asyncio.to_thread(self._request_log.close)
        if self._event_stream is not None:
            await asyncio.to_thread(self._event_stream.close)
        access, self._access = self._access, None
        if access is not None:
            await access.close()

    def stats(self) -> GatewayStats:
        """The figures of this moment."""
        return GatewayStats(
            totals=self._meter.stats(),
            endpoints=tuple(
                EndpointStats(
                    endpoint_id=live.facts.endpoint_id,
                    inflight=live.inflight,
                    idle_connections=len(live.pool),
                    is_breaker_open=not live.breaker.is_closed,
                )
                for live in self._registry.all()
            ),
            connections=len(self._reception.connections),
            most_connections=self._reception.crowd.most,
            refused_connections=self._reception.crowd.turned_away,
            missing_files=self._descriptors.missing,
            buffered_body_bytes=self._reception.budget.held_bytes,
            dropped_log_lines=self._request_log.dropped_lines if self._request_log else 0,
            table_number=self._table.number if self._table is not None else 0,
            prefix_decisions=self._affinity.following,
            prefix_nodes=self._affinity.nodes,
            admission=self._admission.stats(),
            loads=self._loads.stats(),
            fallbacks=dict(self._books.fallbacks),
            dropped_events=self._event_stream.dropped if self._event_stream else 0,
            untaken_bytes=sum(one.untaken_bytes for one in self._reception.connections),
        )

    def figures(self) -> tuple[Sample, ...]:
        """This worker's metrics of this moment, of the families in ``families``."""
        now = self._clock.monotonic()
        return (
            *samples.of_worker(self.stats(), table_age_s=now - self._table_taken_at),
            *samples.of_endpoints(self._registry.all(), now=now),
            *samples.of_pools(self._registry.owners, now=now),
            *self._account_figures(),
        )

    def receipt(self, request_id: str) -> bytes | None:
        """What is told of a request that ended here, as JSON; nothing where it is not known."""
        return self._receipts.find(request_id) if self._receipts is not None else None

    def _make_registry(self, settings: RouterSettings) -> Registry:
        breaker = settings.breaker
        registry = Registry(
            rules=BreakerRules(
                failure_threshold=breaker.failure_threshold,
                open_s=breaker.open_s,
                open_max_s=breaker.open_max_s,
            ),
            cost_rules=CostRules(
                target_waiting=settings.target_waiting,
                kv_ceiling=settings.kv_ceiling,
                default_capacity=settings.default_capacity,
                stale_after_s=settings.stale_after,
            ),
            dial_timeout_s=settings.dispatch.dial_timeout_s,
            now=self._clock.monotonic,
            board=self._place.board,
            shared=Shared(self._outgoing, self._descriptors),
        )
        self._descriptors.make_room = registry.close_idle
        return registry

    def _make_books(self) -> Books:
        return Books(
            self._meter,
            receipts=self._receipts,
            events=self._event_stream.events if self._event_stream is not None else None,
            now=self._clock.monotonic,
            charges=self._charges,
        )

    def _make_charges(self) -> Charges | None:
        access = self._access
        if access is None:
            return None
        return Charges(
            access.gate,
            sink=access.sink,
            default_tokens=access.default_tokens,
            wall=self._clock.wall,
        )

    def _make_reception(self, settings: RouterSettings) -> Reception:
        return Reception(
            service=self._pipeline,
            limits=settings.limits,
            stream=settings.stream,
            budget=BodyBudget(settings.limits.buffered_bytes_per_worker),
            meter=self._meter,
            clock=self._clock,
            new_id=self._new_id,
            outgoing=self._outgoing,
            crowd=Crowd(self._descriptors),
            looked_at=self._clock.monotonic(),
        )

    def _make_pipeline(self, settings: RouterSettings) -> Pipeline:
        return Pipeline(
            local=LocalRoutes(
                routes=self._routes,
                registry=self._registry,
                readiness=self._readiness,
                receipt=self.receipt,
            ),
            siblings=self._place.siblings,
            house=self._house,
            keys=self._access.keys if self._access is not None else None,
            surroundings=Surroundings(
                settings=settings.dispatch,
                registry=self._registry,
                affinity=self._affinity,
                admission=self._admission,
                loads=self._loads,
                books=self._books,
                patience=Patience.of(settings.stream, default_profile=settings.default_profile),
                asks_usage=settings.inject_usage,
                checks_capabilities=settings.check_capabilities,
                now=self._clock.monotonic,
                epoch_at=self._clock.wall() - self._clock.monotonic(),
                new_id=self._new_id,
                tasks=self._tasks,
                draw=random.random,
                charges=self._charges,
            ),
        )

    def _make_scraper(self) -> Scraper:
        return Scraper(
            scraping.Surroundings(
                registry=self._registry,
                tasks=self._tasks,
                now=self._clock.monotonic,
                draw=random.random,
                on_changed=self._tell_of_changes,
                is_publisher=self._place.is_publisher,
            ),
            interval_s=self._scrape_interval_s,
        )

    def _tell_of_changes(self) -> None:
        """Requests under way hear that an endpoint came, left or hangs."""
        for connection in tuple(self._reception.connections):
            self._guarded(connection, connection.on_routes_changed)

    def _accept(self) -> asyncio.Protocol:
        return cast("asyncio.Protocol", ClientConnection(self._reception))

    def _take_over(self, table: RouteTable) -> None:
        """Put a new table in force; requests under way hear of it."""
        self._table = self._pipeline.table = table
        self._table_taken_at = self._clock.monotonic()
        self._registry.replace(table)
        self._tell_of_changes()

    async def _watch(self) -> None:
        """The one clock of all connections, so that a request sets no timers of its own."""
        expire_at = self._clock.monotonic() + _EXPIRE_EVERY_S
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            now = self._reception.looked_at = self._clock.monotonic()
            for connection in tuple(self._reception.connections):
                if connection.due_at <= now or connection.is_paused:
                    self._guarded(connection, functools.partial(connection.look, now))
            self._read_board(now)
            if self._access is not None:
                self._access.look()
            if self._request_log is not None:
                self._request_log.flush()
            if self._event_stream is not None:
                self._event_stream.flush()
            if now >= expire_at:
                expire_at = now + _EXPIRE_EVERY_S
                self._admission.sweep()
                for live in self._registry.all():
                    live.pool.expire(now)
                    live.probes.expire(now)

    def _read_board(self, now: float) -> None:
        self._place.board.look()
        changed = [live for live in self._registry.all() if live.refresh(now)]
        if changed:
            self._tell_of_changes()

    def _guarded(self, connection: Guest, action: Callable[[], None]) -> None:
        """Tell one connection something; its failure must not keep it from all others."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 - see above
            _log.error("connection_failed", exc=error)
            connection.abort()

    async def _emptied(self, *, within_s: float) -> bool:
        """Wait until no client is connected any more."""
        try:
            async with asyncio.timeout(within_s):
                await self._reception.emptied()
        except TimeoutError:
            return False
        return True

    def _readiness(self) -> Readiness:
        table = self._table
        if table is None or not (table.number or table.models):
            return Readiness(("no route table yet",), None)
        now = self._clock.monotonic()
        reasons = []
        if self._is_stopping:
            reasons.append("stopping")
        may_serve = any(
            live.is_ready and live.breaker.may_pass(now) for live in self._registry.all()
        )
        if not may_serve and not any(
            model.state is ModelState.ON_DEMAND for model in table.models.values()
        ):
            reasons.append("no endpoint is ready")
        return Readiness(tuple(reasons), now - self._table_taken_at)


def _receipts(settings: RouterSettings, clock: Clock) -> Receipts | None:
    if not settings.receipts_bytes:
        return None
    return Receipts(
        capacity_bytes=max(settings.receipts_bytes, LEAST_BYTES),
        now=clock.monotonic,
        wall=clock.wall,
    )
