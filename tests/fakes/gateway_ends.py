"""A gateway's end of its link with everything behind it faked, over real gRPC."""

from __future__ import annotations

from contextlib import asynccontextmanager

from llmgw.config.gateway_host import GatewayHostSettings
from llmgw.config.settings import TlsFiles
from llmgw.domain import route_changes
from llmgw.domain.routes import Endpoint, ModelState, RoutedModel, RouteTable
from llmgw.serve.gateway_link import GatewayLink
from llmgw.serve.liveroutes import LiveRoutes
from tests.fakes.gateways import FakeGateways
from tests.fakes.waiting import eventually


def table(number, *endpoints, term=0, models=("m",), state=ModelState.READY):
    """A table of endpoints by their names."""
    listed = {name: RoutedModel(name=name, state=state) for name in models}
    return RouteTable(
        number=number,
        term=term,
        endpoints=tuple(Endpoint(e, f"http://{e}:1", models=models) for e in endpoints),
        models=listed,
        canonical=route_changes.canonical(listed),
    )


class FakeWorkers(FakeGateways):
    """Fits ``gateway_following.Seen``; one worker that has every table at once."""

    def pids(self):
        return (4711,)


class GatewayEnd:
    """One gateway; ``table`` is what it has from an earlier life."""

    def __init__(self, *servers, name="gw01", tls=None, table=None, report_s=0.05):
        self.routes = LiveRoutes(table)
        self.workers = FakeWorkers()
        self.tables = []
        self.routes.subscribe(self.tables.append)
        files = None if tls is None else TlsFiles(ca=tls.ca, cert=tls.cert, key=tls.key)
        self.link = GatewayLink(
            GatewayHostSettings(
                name=name,
                servers=servers,
                tls=files,
                reconnect_base=0.05,
                reconnect_max=0.2,
                report_interval=report_s,
            ),
            routes=self.routes,
        )

    @property
    def refusal(self):
        return self.link.status.refusal

    async def has(self, expected):
        await eventually(
            lambda: self.routes.current() == expected, f"{expected} came, not {self.tables}"
        )


@asynccontextmanager
async def linked(end):
    """The gateway while it dials."""
    end.link.start(end.workers)
    try:
        yield end
    finally:
        await end.link.close()
