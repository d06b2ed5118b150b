"""Real gRPC over loopback: control planes with an agent port, agents with a session, a CA."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass

from llmgw.agent.session import Session, SessionSettings
from llmgw.control.agents.connections import Connections
from llmgw.control.agents.dispatching import Dispatcher
from llmgw.control.agents.listener import Listener
from llmgw.control.agents.logs import LogQuestions
from llmgw.control.agents.service import AgentService, Streams
from llmgw.control.agents.turned_away import TurnedAway
from llmgw.kit.clock import SystemClock
from llmgw.rpc import authority
from llmgw.serve.liveroutes import LiveRoutes
from llmgw.serve.remote_gateways import RemoteGateways
from tests.fakes.agent_parts import FakeFacts, FakeOrders, FakeUpkeep
from tests.fakes.fleet_parts import FakeFleet, FakeLeadership
from tests.fakes.waiting import eventually


@dataclass(frozen=True)
class Files:
    """The PEM files of one end."""

    ca: str
    cert: str
    key: str


def files(issued):
    return Files(ca=str(issued.ca), cert=str(issued.cert), key=str(issued.key))


class Site:
    """A CA, and whatever a test asks it to issue."""

    def __init__(self, root):
        self.root = root
        self.now = time.time()
        authority.init_ca(root / "ca", now=self.now)
        authority.init_ca(root / "foreign", now=self.now)

    def server(self, *, name="localhost", hosts=("127.0.0.1",)):
        out = self.root / f"server-{name}"
        return files(
            authority.issue_server(self.root / "ca", out=out, name=name, hosts=hosts, now=self.now)
        )

    def node(self, node_id="node01", *, ca="ca", now=None, days=30):
        out = self.root / f"node-{node_id}-{ca}-{days}-{now}"
        return files(
            authority.issue_client(
                self.root / ca, out=out, node_id=node_id, now=now or self.now, days=days
            )
        )


class ControlPlane:
    """One control plane with everything behind its agent port faked."""

    def __init__(
        self,
        *,
        tls=None,
        port=0,
        leads=True,
        term=0,
        must_identify=None,
        first_s=10.0,
        clock=None,
    ):
        self.fleet = FakeFleet()
        self.leadership = FakeLeadership(leads=leads, term=term)
        self.connections = Connections(clock=clock)
        self.turned_away = TurnedAway(clock=SystemClock())
        questions = LogQuestions(answer_s=1.0)
        self.dispatcher = Dispatcher(
            connections=self.connections,
            leadership=self.leadership,
            questions=questions,
            answer_s=1.0,
        )
        self.service = AgentService(
            fleet=self.fleet,
            leadership=self.leadership,
            streams=Streams(self.connections, questions, self.turned_away),
            must_identify=tls is not None if must_identify is None else must_identify,
            first_message_s=first_s,
        )
        self.routes = LiveRoutes()
        self.knows_fleet = True
        self.clock = clock or SystemClock()
        self.apart = RemoteGateways(self.routes.current, clock=self.clock)
        for_gateways = self.apart.served(
            self.routes,
            leadership=self.leadership,
            knows_fleet=lambda: self.knows_fleet,
            must_identify=tls is not None if must_identify is None else must_identify,
            turned_away=self.turned_away,
        )
        self.listener = Listener(
            self.service,
            connections=self.connections,
            address=f"127.0.0.1:{port}",
            tls=tls,
            guests=[for_gateways],
        )
        self.port = port

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    async def registered(self, node_id="node01"):
        await eventually(lambda: node_id in self.connections.node_ids())


@asynccontextmanager
async def running(plane):
    plane.port = await plane.listener.start()
    try:
        yield plane
    finally:
        await plane.listener.close()


class Agent:
    """One agent with orders faked, and facts where a test brings none."""

    def __init__(
        self,
        *servers,
        node_id="node01",
        tls=None,
        heartbeat_s=0.05,
        clock=None,
        has_upkeep=True,
        facts=None,
        **settings,
    ):
        self.orders = FakeOrders()
        self.upkeep = FakeUpkeep()
        self.facts = facts or FakeFacts(node_id)
        self.session = Session(
            SessionSettings(
                node_id=node_id, servers=servers, tls=tls, heartbeat_s=heartbeat_s, **settings
            ),
            facts=self.facts,
            orders=self.orders,
            upkeep=self.upkeep if has_upkeep else None,
            clock=clock,
        )

    @property
    def refusal(self):
        return self.session.status.refusal


@asynccontextmanager
async def dialling(agent):
    task = asyncio.create_task(agent.session.run(), name="agent")
    try:
        yield agent
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.done()
        assert task.cancelled(), task.exception()
