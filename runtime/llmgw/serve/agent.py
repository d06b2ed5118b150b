"""Joins the rooms of an agent: discovery, orders, session. Runs ``llmgw agent``.

``llmgw up`` holds one of these too. Its end leaves engines running unless it is told otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llmgw.agent import orders, stocktaking
from llmgw.agent.discovery import address
from llmgw.agent.discovery.facts import Discovery
from llmgw.agent.readings import Readings
from llmgw.agent.ring import LogRing
from llmgw.agent.session import Session, SessionSettings
from llmgw.agent.upkeep import Upkeep
from llmgw.config.settings import AgentSettings
from llmgw.domain.replicas import ShardReport
from llmgw.kit import logs
from llmgw.kit.clock import SystemClock
from llmgw.kit.tasks import Tasks
from llmgw.serve import engine_orders
from llmgw.serve.signals import StopAsked

_PATIENCE_SHARE = 0.25
"""Of the time between two heartbeats, of which the session waits half for a reading."""

_log = logs.get(__name__)


class Agent:
    """One agent from the adoption of its engines to its end."""

    def __init__(self, settings: AgentSettings, *, environ: Mapping[str, str]) -> None:
        """Take the work folder; ``AlreadyHeld`` while another agent has it.

        ``environ`` is handed to engines; ``settings`` come whole from ``config.loading``.
        """
        ring = LogRing()
        logs.add_handler(ring)
        who = address.identity(settings, hostname=settings.hostname)
        self.settings = replace(
            settings,
            node_id=who.node_id,
            mgmt_addr=who.mgmt_addr,
            mgmt_interface=who.mgmt_interface,
        )
        clock = SystemClock()
        discovery = Discovery(
            settings=self.settings,
            identity=who,
            scanner=stocktaking.scanner(self.settings, environ=environ),
            clock=clock,
        )
        self._orders = orders.build(
            self.settings,
            environ=environ,
            clock=clock,
            cards=discovery,
            on_report=self._report,
            ring=ring,
        )
        self._upkeep = Upkeep(
            shelf=self._orders,
            install=engine_orders.installer(self.settings, environ=environ),
            check=engine_orders.checker(self.settings, environ=environ),
            own_programs=stocktaking.named_programs(self.settings.engines),
        )
        self._readings = Readings(
            discovery,
            workers=self._orders,
            patience_s=self.settings.heartbeat_interval * _PATIENCE_SHARE,
        )
        self._session = Session(
            _session_settings(self.settings),
            facts=self._readings,
            orders=self._orders,
            upkeep=self._upkeep,
            clock=clock,
        )
        self._tasks = Tasks(owner="agent")

    async def start(self) -> None:
        """Adopt what runs, then dial for as long as it takes."""
        await self._orders.recover()
        self._tasks.spawn("session", self._session.run())

    async def close(self, *, stop_engines: bool = False) -> None:
        """Leave the control plane; engines go on unless they are to stop with the agent."""
        await self._tasks.close()
        await self._readings.close()
        await self._upkeep.close()
        await self._orders.close(stop_engines=stop_engines)

    def _report(self, report: ShardReport) -> None:
        self._session.report(report)


async def run(settings: AgentSettings, *, environ: Mapping[str, str]) -> None:
    """Run an agent until SIGTERM or SIGINT."""
    stop = StopAsked()
    stop.listen()
    agent = Agent(settings, environ=environ)
    try:
        await agent.start()
        _log.info("agent_serving", node=agent.settings.node_id, address=agent.settings.mgmt_addr)
        await stop.wait()
        _log.info("stopping", engines="go on")
    finally:
        await agent.close()


def _session_settings(settings: AgentSettings) -> SessionSettings:
    return SessionSettings(
        node_id=settings.node_id,
        servers=settings.servers,
        tls=settings.tls,
        heartbeat_s=settings.heartbeat_interval,
        reconnect_base_s=settings.reconnect_base,
        reconnect_max_s=settings.reconnect_max,
    )
