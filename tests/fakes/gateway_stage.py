"""The real gateway on a loopback socket, between scripted engines and raw clients."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import socket

import pytest

from llmgw.config.carrying import (
    BreakerSettings,
    DispatchSettings,
    LimitsSettings,
    PrefixSettings,
    RouterSettings,
    StreamSettings,
)
from llmgw.config.entering import AdmissionSettings, OnDemandSettings
from llmgw.domain.routes import Endpoint, ModelState, RoutedModel, RouteTable
from llmgw.gateway.doors import Doors
from llmgw.gateway.metering import COMMITTED
from llmgw.gateway.server import Gateway
from llmgw.kit.clock import SystemClock
from llmgw.serve.liveroutes import LiveRoutes
from tests.fakes.raw_client import RawClient, post
from tests.fakes.upstream import Upstream
from tests.fakes.waiting import eventually

MODEL = "m"
ASK = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
ON_ONE_LOOP = pytest.mark.asyncio(loop_factories=["uvloop"])
"""For tests that wait on the gateway's own clock: no loop does that in another way."""

_WITHIN_S = 9.0
_LOOK_S = 0.01


class Stage:
    """One test's gateway; ``tune`` and ``clock`` before the first client connects."""

    def __init__(self):
        self.settings = RouterSettings(scrape_interval=0)
        self.clock = SystemClock()
        self.routes = LiveRoutes()
        self.request_log = None
        self.doors = Doors()
        self.endpoints = {}
        self.models = {}
        self.gateway = None
        self._number = 0
        self._clients = []
        self._lives = set()
        self._upstreams = []
        self.list_model(MODEL)

    # Before it starts

    def tune(self, *, dispatch=(), breaker=(), stream=(), limits=(), prefix=(), **router):
        """Settings other than the defaults, groups as dicts; engines are looked at if told so."""
        assert self.gateway is None
        router.setdefault("scrape_interval", 0)
        self.settings = RouterSettings(
            dispatch=DispatchSettings(**dict(dispatch)),
            breaker=BreakerSettings(**dict(breaker)),
            stream=StreamSettings(**dict(stream)),
            limits=LimitsSettings(**dict(limits)),
            prefix=PrefixSettings(**dict(prefix)),
            **router,
        )

    def let_in(self, *, load_requests=None, on_demand=(), **admission):
        """How requests get in, other than by default."""
        self.doors = Doors(
            admission=AdmissionSettings(**admission),
            on_demand=OnDemandSettings(**dict(on_demand)),
            load_requests=load_requests,
        )

    # What may be sent to

    async def engine(
        self,
        endpoint_id="e1",
        *,
        models=(MODEL,),
        answer=None,
        buffer_bytes=None,
        tls=None,
        **facts,
    ):
        """A scripted engine that is in the table."""
        upstream = Upstream(answer)
        await upstream.start(buffer_bytes=buffer_bytes, tls=tls)
        self._upstreams.append(upstream)
        self.list_endpoint(endpoint_id, upstream.url, models=models, **facts)
        return upstream

    async def engines(self, count, *, answer=None, **facts):
        return [await self.engine(f"e{n}", answer=answer, **facts) for n in range(1, count + 1)]

    def list_endpoint(self, endpoint_id, url, *, models=(MODEL,), **facts):
        self.endpoints[endpoint_id] = Endpoint(
            endpoint_id=endpoint_id, url=url, models=models, **facts
        )
        self.publish()

    def change_endpoint(self, endpoint_id, **facts):
        self.endpoints[endpoint_id] = dataclasses.replace(self.endpoints[endpoint_id], **facts)
        self.publish()

    def drop_endpoint(self, endpoint_id):
        del self.endpoints[endpoint_id]
        self.publish()

    def list_model(self, name, **facts):
        self.models[name] = RoutedModel(name=name, **({"state": ModelState.READY} | facts))
        self.publish()

    def publish(self):
        """Put the next table in force."""
        self._number += 1
        canonical = {name: name for name in self.models}
        for model in self.models.values():
            canonical.update(dict.fromkeys(model.aliases, model.name))
        self.routes.put(
            RouteTable(
                number=self._number,
                endpoints=tuple(self.endpoints.values()),
                models=dict(self.models),
                canonical=canonical,
            )
        )
        self._note_endpoints()

    # Clients

    async def start(self, *, buffer_bytes=None):
        """Listen; ``buffer_bytes`` makes the kernel keep little of what is sent to clients."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        if buffer_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        self.port = listener.getsockname()[1]
        self.gateway = Gateway(
            settings=self.settings,
            routes=self.routes,
            clock=self.clock,
            request_log=self.request_log,
            doors=self.doors,
        )
        await self.gateway.start([listener])
        self._note_endpoints()

    async def client(self, *, buffer_bytes=None):
        """A connected client."""
        if self.gateway is None:
            await self.start()
        client = await RawClient.connect(self.port, buffer_bytes=buffer_bytes)
        self._clients.append(client)
        return client

    async def send(self, request):
        """A client that has sent ``request``."""
        client = await self.client()
        client.send(request)
        return client

    async def ask(self, body=ASK, *fields, **where):
        """The answer to one request on a connection of its own."""
        client = await self.send(post(body, *fields, **where))
        return await client.answer()

    # What is known of it

    @property
    def stats(self):
        return self.gateway.stats()

    @property
    def states(self):
        """How requests ended, the states that occurred alone."""
        return {state.value: n for state, n in self.stats.totals.states.items() if n}

    @property
    def failed_attempts(self):
        """How often attempts ended that became no answer, as `llmgw_dispatch_total` tells."""
        counts = {}
        for sample in self.gateway.figures():
            if sample.name == "llmgw_dispatch_total" and sample.labels[1] != COMMITTED:
                outcome = sample.labels[1]
                counts[outcome] = counts.get(outcome, 0) + sample.value
        return counts

    def endpoint_stats(self, endpoint_id="e1"):
        [stats] = [one for one in self.stats.endpoints if one.endpoint_id == endpoint_id]
        return stats

    async def settled(self, *, within_s=_WITHIN_S):
        """Wait until no request is under way."""
        await self.until(lambda: self.stats.totals.inflight == 0, within_s=within_s)

    async def until(self, condition, *, within_s=_WITHIN_S):
        """Wait for something that only the gateway knows."""
        await eventually(condition, within_s=within_s, look_s=_LOOK_S)

    # The end

    async def close(self):
        """End everything; before, hold the promises that every test makes."""
        try:
            for client in self._clients:
                client.leave()
            if self.gateway is not None:
                await self.until(lambda: self.stats.connections == 0)
                self._is_at_rest()
        finally:
            if self.gateway is not None:
                await self.gateway.close()
            for upstream in self._upstreams:
                await upstream.close()
        await self.until(lambda: asyncio.all_tasks() <= {asyncio.current_task()})

    def _note_endpoints(self):
        """Remember each that was ever listed: also one that left must come to rest."""
        if self.gateway is not None:
            self._lives.update(self.gateway._registry.all())

    def _is_at_rest(self):
        stats = self.stats
        assert stats.totals.inflight == 0
        assert {
            live.facts.endpoint_id: live.inflight for live in self._lives if live.inflight
        } == {}
        assert stats.buffered_body_bytes == 0
        assert (stats.admission.leases, stats.admission.swept_leases) == (0, 0)
        assert stats.admission.depths == {}
        assert stats.loads.held == {}
        looks = 1 + len(self.endpoints) if self.settings.scrape_interval else 0
        assert len(self.gateway._tasks) <= 1 + looks, "a task besides the watch is left"


class Errors(logging.Handler):
    """Keeps what is logged as an error, by the gateway or by the event loop."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.events = []

    def emit(self, record):
        self.events.append(record.getMessage())
