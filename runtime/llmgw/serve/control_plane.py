"""Joins the rooms of a control plane: catalog, agents' port, reconciler, and what the API shows."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from llmgw.api.ports import Control
from llmgw.config import secrets
from llmgw.config.settings import ServerSettings, TlsFiles
from llmgw.control.agents.connections import Connections
from llmgw.control.agents.dispatching import Dispatcher
from llmgw.control.agents.listener import Listener
from llmgw.control.agents.logs import LogQuestions
from llmgw.control.agents.service import AgentService, Streams
from llmgw.control.agents.turned_away import TurnedAway
from llmgw.control.catalog.desk import CatalogDesk
from llmgw.control.catalog.keeping import CatalogKeeper
from llmgw.control.catalog.source_check import SourceCheck
from llmgw.control.leadership.elector import Elector, SoleLeader, Standing
from llmgw.control.operators.front_desk import FrontDesk
from llmgw.control.operators.kept_words import Shelves
from llmgw.control.operators.remembering import Memory
from llmgw.control.reconciler import options
from llmgw.control.reconciler.loop import Reconciler
from llmgw.control.reconciler.ports import Gateways, Rooms
from llmgw.control.recorder.journal import Journal
from llmgw.domain.routes import RouteTable
from llmgw.domain.status_views import LeadView
from llmgw.errors import AlreadyHeld, Standby
from llmgw.kit import addresses
from llmgw.kit.clock import Clock, SystemClock
from llmgw.kit.tasks import Tasks
from llmgw.serve import fleet_metrics, holders
from llmgw.serve.audit_log import AuditLog
from llmgw.serve.bundling import SupportBundle
from llmgw.serve.decisions_log import DecisionsLog
from llmgw.serve.kept import Accounts, Kept
from llmgw.serve.measured import Measured
from llmgw.serve.remote_gateways import RemoteGateways
from llmgw.serve.usage_shown import UsageShown


@dataclass(frozen=True, slots=True)
class _AgentParts:
    """What knows the agents' streams."""

    connections: Connections
    questions: LogQuestions
    dispatcher: Dispatcher
    turned_away: TurnedAway


class ControlPlane:
    """One control plane; without an elector it leads always."""

    def __init__(
        self,
        settings: ServerSettings,
        *,
        last_routes: RouteTable | None,
        also_expected: Collection[str] = (),
        elector: Elector | None = None,
        store: Kept | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """``also_expected`` are nodes that are awaited before anything is placed.

        ``elector`` is started after this and ended after ``close``.
        Without ``store`` nothing is kept; ``environ`` is where secrets may lie.
        """
        clock = SystemClock()
        self._elector = elector
        self._leadership = elector or SoleLeader()
        self._agents = agents = _agent_parts(self._leadership, clock=clock)
        self._journal = _journal(settings)
        self._apart = RemoteGateways(self._table, clock=clock)
        self._catalog = CatalogKeeper(
            settings.models,
            stored=store.models if store else None,
            clock=clock,
            owner=elector.owner if elector else "",
        )
        rooms = Rooms(
            catalog=self._catalog.live,
            dispatcher=agents.dispatcher,
            dismiss=agents.dispatcher.dismiss,
            leadership=self._leadership,
            clock=clock,
            recorder=self._journal,
            gateways_apart=self._apart.views,
        )
        self.reconciler = Reconciler(
            rooms,
            options=options.of(settings.control, also_expected=also_expected),
            last_routes=last_routes,
        )
        self.routes = self.reconciler.routes
        self._shelves = _shelves(store, elector)
        self._memory = Memory(self.reconciler.instructions, shelves=self._shelves, clock=clock)
        self.shown = self._shown(settings, store=store, environ=environ or {}, clock=clock)
        self._address = settings.agent_listen
        tls = settings.agent_tls if isinstance(settings.agent_tls, TlsFiles) else None
        self.has_tls = tls is not None
        self._listener = self._made_listener(settings.agent_listen, tls=tls)
        self._tasks = Tasks(owner="control")
        if elector is not None:
            elector.subscribe(self._stands)
            elector.prepare(self._catalog.load)
            elector.prepare(self._memory.load)

    def _shown(
        self,
        settings: ServerSettings,
        *,
        store: Kept | None,
        environ: Mapping[str, str],
        clock: Clock,
    ) -> Control:
        """What the admin API offers of all this."""
        instructions, dispatcher = self.reconciler.instructions, self._agents.dispatcher
        words = FrontDesk(instructions, shelves=self._shelves, memory=self._memory, clock=clock)
        accounts = _accounts(store, settings=settings, clock=clock)
        return Control(
            fleet=self.reconciler,
            logs=dispatcher,
            checks=dispatcher,
            flags=words,
            refusals=self._agents.turned_away,
            downloads=dispatcher,
            plans=self.reconciler,
            bundles=SupportBundle(settings, views=self._views, clock=clock),
            rolls=words,
            catalogs=CatalogDesk(self._catalog, sources=_sources(settings, environ)),
            lead=self,
            audit=AuditLog(store.audit if store else None, settings=settings.audit, clock=clock),
            brakes=instructions,
            measurements=Measured(store.capacity if store else None, clock=clock),
            decisions=DecisionsLog(Path(settings.state_dir), is_kept=self._journal is not None),
            usage=UsageShown(
                rows=store.usage if store else None,
                sums=store.usage_sums if store else None,
                clock=clock,
            ),
            keys=accounts.keys if accounts else None,
            tree=accounts.directory if accounts else None,
            people=accounts.people.desk if accounts else None,
        )

    def _made_listener(self, address: str, *, tls: TlsFiles | None) -> Listener:
        """The port of agents, and of gateways on other hosts."""
        agents = self._agents
        service = AgentService(
            fleet=self.reconciler,
            leadership=self._leadership,
            streams=Streams(agents.connections, agents.questions, agents.turned_away),
            must_identify=self.has_tls,
        )
        for_gateways = self._apart.served(
            self.routes,
            leadership=self._leadership,
            knows_fleet=self.reconciler.knows_fleet,
            must_identify=self.has_tls,
            turned_away=agents.turned_away,
        )
        return Listener(
            service,
            connections=agents.connections,
            address=address,
            tls=tls,
            guests=[for_gateways],
        )

    def lead(self) -> LeadView:
        """See ``api.ports.Lead``."""
        if self._elector is None:
            return LeadView(Standing.LEADS)
        other = self._elector.leader()
        standing = self._elector.standing()
        own = "" if standing is Standing.STANDBY else self._elector.address
        return LeadView(standing, self._elector.term(), other.address if other else own)

    def obstacle(self) -> str:
        """Why clients should be sent elsewhere; empty unless another one is known to lead."""
        other = self._elector.leader() if self._elector is not None else None
        return f"this control plane is a standby; {other.address} leads" if other else ""

    def join(self, gateways: Gateways) -> Callable[[], None]:
        """Hear what the gateways see, until what is returned is called."""
        return self.reconciler.join(self._apart.beside(gateways))

    def _table(self) -> RouteTable:
        return self.routes.current()

    async def metrics_page(self) -> str:
        """The fleet's figures of this moment, as Prometheus reads them."""
        return fleet_metrics.page(await self.reconciler.figures())

    def _views(self) -> Mapping[str, object]:
        fleet = self.reconciler
        return {
            "status": fleet.status(),
            "nodes": fleet.nodes(),
            "models": fleet.models(),
            "replicas": fleet.replicas(),
            "refusals": self.shown.refusals.refusals(),
            "routes": self.routes.current(),
        }

    async def start(self) -> int:
        """Listen for agents and begin the passes; the port that agents dial.

        What is stored is in the catalog before: agents are told to end what no model names.
        """
        if self._elector is None:
            await self._catalog.load()
            await self._memory.load()
            self._memory.lead(is_leading=True)
        else:
            await self._catalog.refresh()  # a leader has it already, a standby may wait for it
        port = await self._listening()
        self._tasks.spawn("reconciler", self.reconciler.run())
        self._tasks.spawn("catalog", self._catalog.run())
        self._tasks.spawn("memory", self._memory.run())
        return port

    async def close(self) -> None:
        """Tell agents to come back later and end the passes; what runs on nodes goes on."""
        await self._tasks.close()
        if self._journal is not None:
            await self._journal.close()
        await self._listener.close()

    def _stands(self, standing: Standing) -> None:
        """A lapsed leader keeps its streams and routes; a deposed one sends its agents away."""
        if standing is Standing.STANDBY:
            reason = Standby("this control plane is a standby; another one leads")
            self._agents.connections.end_all(reason)
            self._apart.stand_by(reason)
            self.reconciler.stand_by()
        self._memory.lead(is_leading=standing is Standing.LEADS)
        self.reconciler.wake()

    async def _listening(self) -> int:
        try:
            return await self._listener.start()
        except AlreadyHeld as error:
            holder = holders.listener(addresses.parse(self._address).port)
            by = f" by {holder}" if holder else ""
            raise AlreadyHeld(
                f"agent_listen: {self._address} is in use{by}; stop it, or set another address"
            ) from error


def _agent_parts(leadership: Elector | SoleLeader, *, clock: Clock) -> _AgentParts:
    connections, questions = Connections(clock=clock), LogQuestions()
    return _AgentParts(
        connections=connections,
        questions=questions,
        dispatcher=Dispatcher(connections=connections, leadership=leadership, questions=questions),
        turned_away=TurnedAway(clock=clock),
    )


def _accounts(store: Kept | None, *, settings: ServerSettings, clock: Clock) -> Accounts | None:
    """Where there is a store; import it only there: it knows SQLAlchemy, which is large."""
    if store is None:
        return None
    module = importlib.import_module("llmgw.serve.accounts")
    made: Accounts = module.joined(store, settings=settings, clock=clock)
    return made


def _shelves(store: Kept | None, elector: Elector | None) -> Shelves | None:
    if store is None:
        return None
    return Shelves(store.nodes, store.rolls, owner=elector.owner if elector else "")


def _sources(settings: ServerSettings, environ: Mapping[str, str]) -> SourceCheck:
    token = partial(secrets.resolve, settings.control.hub_token or "", environ=environ)
    return SourceCheck(hub_url=settings.control.hub_url, hub_token=token)


def _journal(settings: ServerSettings) -> Journal | None:
    size = settings.control.journal_bytes
    return Journal(Path(settings.state_dir), max_bytes=size) if size else None
