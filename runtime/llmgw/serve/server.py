"""``llmgw server``: the control plane (where models are to be placed) and the gateway's workers.

It holds the lock of its run folder, the listening sockets and the last route table; requests never
pass through it. Its end by SIGTERM ends the workers in order and leaves engines as they are; when
it is killed the workers serve on and the next server takes them over.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

from llmgw import __version__
from llmgw.api.ports import Control, MetricsPage
from llmgw.api.routers import metrics
from llmgw.config import secrets
from llmgw.config.settings import ServerSettings
from llmgw.control.leadership.elector import Elector
from llmgw.domain import catalog_rules
from llmgw.domain.routes import RouteTable
from llmgw.errors import Invalid
from llmgw.gateway.ports import RouteSource
from llmgw.kit import addresses, logs
from llmgw.serve import listeners, run_folder, static_routes
from llmgw.serve.admin import AdminListener, RoutesReadiness
from llmgw.serve.asgi_port import AsgiPort
from llmgw.serve.kept import Kept
from llmgw.serve.keyed import AccessLike
from llmgw.serve.liveroutes import LiveRoutes
from llmgw.serve.messages import WorkerSettings
from llmgw.serve.metrics_pages import MetricsPages
from llmgw.serve.route_file import RouteFile
from llmgw.serve.signals import StopAsked
from llmgw.serve.workers import Workers

_log = logs.get(__name__)

Announce = Callable[[str], None]
"""Writes one line for the person who started the process."""


class ControlPlaneLike(Protocol):
    """What the server needs of a control plane; ``control_plane.ControlPlane`` fits."""

    @property
    def routes(self) -> RouteSource:
        """The tables that it publishes."""
        ...

    @property
    def shown(self) -> Control:
        """What the admin API shows."""
        ...

    @property
    def has_tls(self) -> bool:
        """Whether agents must show certificates."""
        ...

    def obstacle(self) -> str:
        """Why clients should be sent elsewhere; empty where nothing is in the way."""
        ...

    def join(self, gateways: Workers) -> Callable[[], None]:
        """Hear what the workers see, until what is returned is called."""
        ...

    async def metrics_page(self) -> str:
        """The fleet's figures."""
        ...

    async def start(self) -> int:
        """Listen for agents; the port."""
        ...

    async def close(self) -> None:
        """Leave the agents."""
        ...


class LeadingLike(Protocol):
    """The store and the candidate; ``leading.Leading`` fits."""

    @property
    def store(self) -> Kept:
        """What is kept."""
        ...

    @property
    def elector(self) -> Elector:
        """Says whether this server leads."""
        ...

    async def start(self) -> None:
        """Open the store and stand for election."""
        ...

    async def close(self) -> None:
        """Let the next one lead."""
        ...


class Server:
    """One server from its lock to its end."""

    def __init__(
        self, settings: ServerSettings, *, environ: Mapping[str, str], announce: Announce
    ) -> None:
        """``environ`` is where secrets may lie; ``Invalid`` when there is nothing to serve."""
        if not settings.has_control_plane and not settings.endpoints:
            raise Invalid(
                "nothing to serve: give --endpoint ID=URL=MODEL, or endpoints or models with "
                "profiles in the settings, or set control.enabled to true"
            )
        self._settings = settings
        self._environ = environ
        self._announce = announce
        self._store: Kept | None = None
        self._stop = StopAsked()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; a second one cuts what still runs."""
        self._stop.listen()
        run_dir = Path(self._settings.run_dir)
        with run_folder.held(run_dir):
            async with AsyncExitStack() as parts:
                workers = await self._start(parts, run_dir=run_dir)
                await self._stop.wait()
                _log.info("stopping")
                hurry = asyncio.create_task(self._hurry(workers), name="server.hurry")
                parts.callback(hurry.cancel)

    async def _start(self, parts: AsyncExitStack, *, run_dir: Path) -> Workers:
        """Open every port before any worker is touched, so that a mistake changes nothing."""
        settings = self._settings
        admin_port = listeners.bind(addresses.parse(settings.admin_listen), key="admin_listen")
        parts.callback(admin_port.close)
        metrics_port = self._metrics_port(parts)
        control = await self._control(parts)
        routes = control.routes if control is not None else LiveRoutes(self._static_table())
        access = await self._access(parts)
        workers = Workers(
            address=addresses.parse(settings.listen),
            count=settings.gateway.workers,
            settings=WorkerSettings(
                router=settings.router,
                gateway=settings.gateway,
                log=settings.log,
                admission=settings.admission,
                on_demand=settings.on_demand,
                access=access.settings if access is not None else None,
            ),
            run_dir=run_dir,
            table=routes.current(),
        )
        if access is not None:
            workers.ask_keys_of(access)
        parts.callback(routes.subscribe(workers.publish))
        url = await workers.start()
        stopping = settings.gateway
        grace_s = stopping.drain_delay_s + stopping.shutdown_grace_s
        parts.push_async_callback(workers.close, grace_s=grace_s)
        figures: MetricsPage = workers
        if access is not None:
            figures = MetricsPages(figures, fleet=access.metrics_page)
        if control is not None:
            parts.callback(control.join(workers))
            figures = MetricsPages(figures, fleet=control.metrics_page)
        admin = AdminListener(
            admin_port,
            readiness=RoutesReadiness(
                routes.current, obstacle=control.obstacle if control else str
            ),
            control=control.shown if control is not None else None,
            figures=figures,
        )
        admin.start()
        parts.push_async_callback(admin.close)
        self._say_where(url, admin=listeners.shown(admin_port))
        if metrics_port is not None:
            shown = AsgiPort(metrics_port, app=metrics.create_app(figures), name="metrics")
            shown.start()
            parts.push_async_callback(shown.close)
            self._announce(f"metrics  {listeners.shown(metrics_port)}/metrics")
        return workers

    def _metrics_port(self, parts: AsyncExitStack) -> socket.socket | None:
        address = self._settings.metrics_listen
        if address is None:
            return None
        port = listeners.bind(addresses.parse(address), key="metrics_listen")
        parts.callback(port.close)
        return port

    async def _control(self, parts: AsyncExitStack) -> ControlPlaneLike | None:
        settings = self._settings
        if not settings.has_control_plane:
            return None
        file = RouteFile(Path(settings.state_dir))
        leading = _make_leading(settings, environ=self._environ)
        control = _make_control_plane(
            settings, last_routes=file.load(), leading=leading, environ=self._environ
        )
        if leading is not None:
            self._store = leading.store
            parts.push_async_callback(leading.close)
            await leading.start()
        parts.push_async_callback(file.close)
        parts.callback(control.routes.subscribe(file.keep))
        port = await control.start()
        parts.push_async_callback(control.close)
        host = addresses.parse(settings.agent_listen).host
        way = "mutual TLS" if control.has_tls else "plaintext"
        self._announce(f"agents   {addresses.Address(host=host, port=port)} ({way})")
        if not control.has_tls and not addresses.parse(settings.agent_listen).is_loopback:
            _log.warning("agents_in_plaintext", means="whoever reaches the port can be any node")
        return control

    async def _access(self, parts: AsyncExitStack) -> AccessLike | None:
        """Keys, where they are asked for, of the store that the control plane has, if it has."""
        if not self._settings.auth.enabled:
            return None
        access = _make_access(self._settings, store=self._store, environ=self._environ)
        parts.push_async_callback(access.close)
        await access.start()
        return access

    def _static_table(self) -> RouteTable:
        endpoints = self._settings.endpoints
        keys = {e.id: secrets.resolve(e.api_key, environ=self._environ) for e in endpoints}
        catalog = catalog_rules.build(self._settings.models)
        return static_routes.build(
            endpoints, catalog=catalog, keys=keys, created_at=int(time.time())
        )

    def _say_where(self, url: str, *, admin: str) -> None:
        listen = addresses.parse(self._settings.listen)
        reach = " (on all addresses)" if listen.is_wildcard else ""
        self._announce(f"admin    {admin}")
        self._announce(f"clients  {url}/v1{reach}")
        if not listen.is_loopback and not self._settings.auth.enabled:
            _log.warning("no_keys", means="whoever reaches the client port may use every model")
        _log.info("serving", version=__version__, clients=url, admin=admin)

    async def _hurry(self, workers: Workers) -> None:
        await self._stop.wait_quick()
        _log.warning("stopping_at_once")
        workers.hurry()


async def reap(settings: ServerSettings) -> int:
    """End the workers that a killed server left; ``AlreadyHeld`` while a server lives."""
    return await run_folder.reap(Path(settings.run_dir), stopping=settings.gateway)


def _make_control_plane(
    settings: ServerSettings,
    *,
    last_routes: RouteTable | None,
    leading: LeadingLike | None,
    environ: Mapping[str, str],
) -> ControlPlaneLike:
    """Import it only where it is wanted: grpc is larger than all else that a router needs."""
    module = importlib.import_module("llmgw.serve.control_plane")
    made: ControlPlaneLike = module.ControlPlane(
        settings,
        last_routes=last_routes,
        elector=leading.elector if leading else None,
        store=leading.store if leading else None,
        environ=environ,
    )
    return made


def _make_leading(settings: ServerSettings, *, environ: Mapping[str, str]) -> LeadingLike | None:
    """Where a store is configured; import it only there: SQLAlchemy is large."""
    if not settings.auth.store:
        return None
    module = importlib.import_module("llmgw.serve.leading")
    made: LeadingLike = module.Leading(settings, environ=environ)
    return made


def _make_access(
    settings: ServerSettings, *, store: Kept | None, environ: Mapping[str, str]
) -> AccessLike:
    """Where keys are asked for; import it only there, as ``leading``."""
    module = importlib.import_module("llmgw.serve.host_access")
    made: AccessLike = module.make(settings, store=store, environ=environ)
    return made
