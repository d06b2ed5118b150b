"""``llmgw gateway``: the gateway's workers on a host of their own.

It is to its workers what a server is to its own: it holds the lock of its run folder, the listening
sockets and the last table. Tables come over the link from the control plane that leads, are kept
on disk, and are served from there when no control plane answers.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from llmgw import __version__
from llmgw.api.ports import MetricsPage
from llmgw.api.routers import metrics as metrics_route
from llmgw.config.gateway_host import GatewayHostSettings
from llmgw.config.settings import ServerSettings
from llmgw.gateway import families
from llmgw.kit import addresses, logs, metrics
from llmgw.kit.metrics import Sample
from llmgw.serve import listeners, run_folder
from llmgw.serve.admin import AdminListener, RoutesReadiness
from llmgw.serve.asgi_port import AsgiPort
from llmgw.serve.gateway_link import GatewayLink
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


@dataclass(frozen=True, slots=True)
class _Ports:
    """What is open beside the clients' port."""

    admin: socket.socket
    metrics: socket.socket | None = None


class GatewayApart:
    """One gateway from its lock to its end."""

    def __init__(
        self, settings: GatewayHostSettings, *, environ: Mapping[str, str], announce: Announce
    ) -> None:
        """``settings`` are whole, as they are loaded; ``environ`` is where secrets may lie."""
        self._settings = settings
        self._environ = environ
        self._announce = announce
        self._stop = StopAsked()
        self._routes = LiveRoutes()
        self._link: GatewayLink | None = None

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; a second one cuts what still runs."""
        self._stop.listen()
        with run_folder.held(Path(self._settings.run_dir)):
            async with AsyncExitStack() as parts:
                workers = await self._start(parts)
                await self._stop.wait()
                _log.info("stopping")
                hurry = asyncio.create_task(self._hurry(workers), name="gateway.hurry")
                parts.callback(hurry.cancel)

    async def _start(self, parts: AsyncExitStack) -> Workers:
        """Open every port before any worker is touched, so that a mistake changes nothing."""
        settings = self._settings
        ports = self._ports(parts)
        self._load(parts)
        access = await self._access(parts)
        workers = self._workers(access)
        parts.callback(self._routes.subscribe(workers.publish))
        self._link = link = GatewayLink(settings, routes=self._routes)
        # Before the workers, so that it is closed after them: it tells of what they still have.
        parts.push_async_callback(link.close)
        url = await workers.start()
        stopping = settings.gateway
        grace_s = stopping.drain_delay_s + stopping.shutdown_grace_s
        parts.push_async_callback(workers.close, grace_s=grace_s)
        link.start(workers)
        figures: MetricsPage = workers
        if access is not None:
            figures = MetricsPages(figures, fleet=access.metrics_page)
        self._show(parts, ports, figures=MetricsPages(figures, fleet=self._link_page))
        self._say_where(url, admin=listeners.shown(ports.admin))
        return workers

    def _ports(self, parts: AsyncExitStack) -> _Ports:
        settings, metrics_listen = self._settings, self._settings.metrics_listen
        opened = _Ports(
            admin=listeners.bind(addresses.parse(settings.admin_listen), key="admin_listen")
        )
        parts.callback(opened.admin.close)
        if metrics_listen is None:
            return opened
        shown = listeners.bind(addresses.parse(metrics_listen), key="metrics_listen")
        parts.callback(shown.close)
        return replace(opened, metrics=shown)

    def _show(self, parts: AsyncExitStack, ports: _Ports, *, figures: MetricsPages) -> None:
        """Answer probes and scrapes."""
        admin = AdminListener(
            ports.admin,
            readiness=RoutesReadiness(self._routes.current, obstacle=self._obstacle),
            control=None,
            figures=figures,
        )
        admin.start()
        parts.push_async_callback(admin.close)
        if ports.metrics is not None:
            app = metrics_route.create_app(figures)
            shown = AsgiPort(ports.metrics, app=app, name="metrics")
            shown.start()
            parts.push_async_callback(shown.close)
            self._announce(f"metrics  {listeners.shown(ports.metrics)}/metrics")

    def _load(self, parts: AsyncExitStack) -> None:
        """Begin with the table on disk, and keep each later one there."""
        file = RouteFile(Path(self._settings.state_dir))
        parts.push_async_callback(file.close)
        table = file.load()
        if table is not None:
            self._routes.put(table)
            _log.info("serves_from_disk", table=table.number, term=table.term or None)
        parts.callback(self._routes.subscribe(file.keep))

    async def _access(self, parts: AsyncExitStack) -> AccessLike | None:
        """Keys, where they are asked for, of the servers' store; imported only there."""
        if not self._settings.auth.enabled:
            return None
        module = importlib.import_module("llmgw.serve.host_access")
        access: AccessLike = module.make(
            _for_keys(self._settings), store=None, environ=self._environ, may_migrate=False
        )
        parts.push_async_callback(access.close)
        await access.start()
        return access

    def _workers(self, access: AccessLike | None) -> Workers:
        settings = self._settings
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
            run_dir=Path(settings.run_dir),
            table=self._routes.current(),
        )
        if access is not None:
            workers.ask_keys_of(access)
        return workers

    def _obstacle(self) -> str:
        """What keeps this gateway from having a table at all."""
        if self._routes.current().number or self._link is None:
            return ""
        refusal = self._link.status.refusal or "none has answered yet"
        return f"no control plane has told what is served: {refusal}"

    async def _link_page(self) -> str:
        is_open = self._link is not None and self._link.status.is_open
        sample = Sample("llmgw_control_plane_connected", (), float(is_open))
        return metrics.render([sample], families.FAMILIES)

    def _say_where(self, url: str, *, admin: str) -> None:
        listen = addresses.parse(self._settings.listen)
        reach = " (on all addresses)" if listen.is_wildcard else ""
        self._announce(f"gateway  {self._settings.name}")
        self._announce(f"routes   {', '.join(self._settings.servers)}")
        self._announce(f"admin    {admin}")
        self._announce(f"clients  {url}/v1{reach}")
        if not listen.is_loopback and not self._settings.auth.enabled:
            _log.warning("no_keys", means="whoever reaches the client port may use every model")
        _log.info("serving", version=__version__, clients=url, admin=admin)

    async def _hurry(self, workers: Workers) -> None:
        await self._stop.wait_quick()
        _log.warning("stopping_at_once")
        workers.hurry()


def _for_keys(settings: GatewayHostSettings) -> ServerSettings:
    """What a server would be told that asks for the same keys in these folders."""
    return ServerSettings(
        state_dir=settings.state_dir,
        run_dir=settings.run_dir,
        admission=settings.admission,
        auth=settings.auth,
        accounting=settings.accounting,
    )
