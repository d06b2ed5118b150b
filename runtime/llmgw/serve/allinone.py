"""``llmgw up``: control plane, gateway and agent in one process, joined as they are apart.

The agent talks to the control plane over real gRPC on loopback, so the code is that of
``llmgw server`` and ``llmgw agent``. An orderly end stops the engines; after a kill they serve on
and the next ``llmgw up`` on the same data folder adopts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket

from llmgw.accounting.limit_board import LimitBoard
from llmgw.config import store_address
from llmgw.config.settings import ServerSettings
from llmgw.domain.routes import EndpointState
from llmgw.domain.views import ModelView, ReplicaView
from llmgw.errors import AlreadyHeld
from llmgw.gateway import families
from llmgw.gateway.doors import Doors, Place
from llmgw.gateway.house import House
from llmgw.gateway.server import Gateway
from llmgw.kit import addresses, metrics
from llmgw.kit.addresses import Address
from llmgw.kit.clock import SystemClock
from llmgw.serve import embedded, gateways, host_access, house_socket, listeners, locks
from llmgw.serve.admin import AdminListener, RoutesReadiness
from llmgw.serve.agent import Agent
from llmgw.serve.control_plane import ControlPlane
from llmgw.serve.embedded import UpSettings
from llmgw.serve.one_gateway import OneGateway
from llmgw.serve.route_file import RouteFile
from llmgw.serve.signals import StopAsked
from llmgw.store import opening
from llmgw.store.database import Sizing
from llmgw.store.opening import Store


@dataclass(frozen=True, slots=True)
class Where:
    """Addresses that are open."""

    clients_url: str
    admin_url: str
    is_admin_elsewhere: bool
    """The usual admin port was taken, so another one was chosen."""


class AllInOne:
    """Everything of llmgw on one machine, from ``start`` to ``close``."""

    def __init__(
        self, settings: UpSettings, *, environ: Mapping[str, str], stop: StopAsked
    ) -> None:
        """``stop`` asked a second time while it closes cuts what still runs."""
        self._settings = settings
        self._environ = environ
        self._stop = stop
        self._parts = AsyncExitStack()
        self._control: ControlPlane | None = None
        self._gateway: Gateway | None = None

    async def start(self) -> Where:
        """Open the ports and start the parts; what was started is ended again when that fails."""
        try:
            return await self._start()
        except BaseException:
            await self._parts.aclose()
            raise

    async def close(self) -> None:
        """Let running requests end, stop the engines, close everything."""
        await self._parts.aclose()

    def models(self) -> Sequence[ModelView]:
        """Every model and how much of it runs."""
        return self._control.reconciler.models() if self._control else ()

    def replicas(self) -> Sequence[ReplicaView]:
        """Every replica and how far it is."""
        return self._control.reconciler.replicas() if self._control else ()

    @property
    def inflight(self) -> int:
        """How many requests of clients are under way."""
        return self._gateway.stats().totals.inflight if self._gateway else 0

    async def metrics_page(self) -> str:
        """See ``api.ports.MetricsPage``: of the one gateway that there is, and the fleet."""
        samples = self._gateway.figures() if self._gateway else ()
        page = metrics.render(samples, families.FAMILIES)
        return page if self._control is None else page + await self._control.metrics_page()

    def serves(self, model: str) -> bool:
        """Whether the gateway has a living replica of the model in its table."""
        if self._control is None:
            return False
        living = {replica.replica_id for replica in self.replicas()}
        return any(
            endpoint.endpoint_id in living
            for endpoint in self._control.routes.current().endpoints
            if endpoint.state is EndpointState.READY and model in endpoint.models
        )

    async def _start(self) -> Where:
        server = self._settings.server
        run_dir = Path(server.run_dir)
        lock = locks.hold(run_dir / "server.lock", what=f"the data folder {run_dir.parent}")
        self._parts.callback(lock.release)
        clients = self._opened(listeners.bind(addresses.parse(server.listen), key="listen"))
        admin_port, is_elsewhere = _admin_port(server)
        self._opened(admin_port)
        store = await self._start_store(server)
        control, agent_port = await self._start_control(server, store=store)
        await self._start_agent(agent_port)
        admin = AdminListener(
            admin_port,
            readiness=RoutesReadiness(control.routes.current),
            control=control.shown,
            figures=self,
        )
        admin.start()
        self._parts.push_async_callback(admin.close)
        where = Where(
            clients_url=f"{listeners.shown(clients)}/v1",
            admin_url=listeners.shown(admin_port),
            is_admin_elsewhere=is_elsewhere,
        )
        await self._start_gateway(clients, control=control, store=store)
        return where

    def _opened(self, port: socket) -> socket:
        self._parts.callback(port.close)
        return port

    async def _start_control(
        self, server: ServerSettings, *, store: Store
    ) -> tuple[ControlPlane, int]:
        file = RouteFile(Path(server.state_dir))
        self._parts.push_async_callback(file.close)
        node_id = self._settings.agent.node_id
        control = ControlPlane(
            server,
            last_routes=file.load(),
            also_expected=[node_id],
            store=store,
            environ=self._environ,
        )
        self._parts.callback(control.routes.subscribe(file.keep))
        port = await control.start()
        self._parts.push_async_callback(control.close)
        self._control = control
        if not any(model.profiles for model in self.models()):
            raise embedded.no_model(self._settings.data)
        return control, port

    async def _start_store(self, server: ServerSettings) -> Store:
        """A file of this data folder, which nobody else uses: so there is nobody to elect."""
        address = store_address.resolve(server.auth.store, environ=self._environ)
        opening.check_owner(address)
        store = Store(address, sizing=Sizing(timeout_s=server.auth.store_timeout_s))
        self._parts.push_async_callback(store.close)
        await store.open(may_migrate=True)
        return store

    async def _start_agent(self, port: int) -> None:
        url = f"http://{Address(host='127.0.0.1', port=port)}"
        settings = replace(self._settings.agent, server=url, servers=(url,))
        agent = Agent(settings, environ=self._environ)
        self._parts.push_async_callback(agent.close, stop_engines=True)
        await agent.start()

    async def _start_gateway(self, clients: socket, *, control: ControlPlane, store: Store) -> None:
        server = self._settings.server
        seen = OneGateway(control.routes, now=SystemClock().monotonic)
        gateway = gateways.make(
            router=server.router,
            log=server.log,
            routes=control.routes,
            place=Place(seen.board),
            doors=await self._keyed(
                Doors(
                    admission=server.admission,
                    on_demand=server.on_demand,
                    load_requests=seen.wishes,
                ),
                control=control,
                store=store,
            ),
        )
        self._gateway = gateway
        self._parts.callback(control.join(seen))
        self._parts.push_async_callback(self._end_gateway, gateway)
        await gateway.start([clients])

    async def _keyed(self, doors: Doors, *, control: ControlPlane, store: Store) -> Doors:
        """With keys and pages, where they are asked for: as a server and its only worker."""
        server = self._settings.server
        if not server.auth.enabled:
            return doors
        host = host_access.make(server, store=store, environ=self._environ)
        self._parts.push_async_callback(host.close)
        await host.start()
        host.open(rows=())
        host.seat(0)
        run_dir = Path(server.run_dir)
        access = gateways.access_of(
            host.settings,
            ask=host.answer,
            limits=LimitBoard.attached(Path(host.settings.limits_board), row=1),
            routes=control.routes,
            run_dir=run_dir,
        )
        return replace(doors, access=access, house=House(house_socket.path(run_dir)))

    async def _end_gateway(self, gateway: Gateway) -> None:
        stopping = self._settings.server.gateway
        await self._stop.unless_hurried(
            gateway.drain(stopping.shutdown_grace_s, delay_s=stopping.drain_delay_s)
        )
        await gateway.close()


def _admin_port(server: ServerSettings) -> tuple[socket, bool]:
    """The admin port, and whether it is another one because the usual was taken."""
    wished = addresses.parse(server.admin_listen)
    try:
        return listeners.bind(wished, key="admin_listen"), False
    except AlreadyHeld:
        if server.admin_listen != embedded.ADMIN_LISTEN:
            raise
    return listeners.bind(Address(host=wished.host, port=0), key="admin_listen"), True
