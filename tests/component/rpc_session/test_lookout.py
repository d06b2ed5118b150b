"""An agent finds a newer leader while the old one still answers it, and follows no rumour."""

from __future__ import annotations

import asyncio
import socket

import pytest

from llmgw.errors import NotConnected
from llmgw.rpc import channels, wire_shards
from llmgw.rpc.v1 import agent_pb2 as pb
from llmgw.rpc.v1 import agent_pb2_grpc
from tests.fakes.rpc_stage import Agent, ControlPlane, dialling, running
from tests.fakes.waiting import eventually

QUICK = {"lookout_s": 0.05, "reconnect_base_s": 60, "reconnect_max_s": 60}


async def test_a_node_leaves_a_leader_that_does_not_know_that_another_leads(agent_log):
    async with (
        running(ControlPlane(term=4)) as old,
        running(ControlPlane(leads=False)) as new,
        dialling(Agent(old.address, new.address, **QUICK)) as agent,
    ):
        await old.registered()
        await asyncio.sleep(0.2)
        assert agent.session.status.sessions == 1, "a standby is no reason to go"
        new.leadership.leads, new.leadership.number = True, 5
        await new.registered()
        assert old.leadership.leads
        assert agent.session.status.address == f"http://{new.address}"
        await eventually(lambda: old.fleet.of("lost"))
    why = [k["reason"] for event, k in agent_log if event == "session_ended"]
    assert why[0] == (
        f"http://{new.address} leads in term 5 by now, so http://{old.address} does not any more"
    )


async def test_who_leads_in_an_older_term_or_in_none_draws_nobody_away():
    async with (
        running(ControlPlane(term=4)) as leader,
        running(ControlPlane(term=4)) as equal,
        running(ControlPlane(term=3)) as older,
        running(ControlPlane()) as alone,
        dialling(
            Agent(leader.address, equal.address, older.address, alone.address, **QUICK)
        ) as agent,
    ):
        await leader.registered()
        await asyncio.sleep(0.3)
        assert agent.session.status.sessions == 1
        assert agent.session.status.is_registered


async def test_of_several_the_newest_is_followed():
    async with (
        running(ControlPlane(term=4)) as old,
        running(ControlPlane(leads=False)) as one,
        running(ControlPlane(leads=False)) as other,
        dialling(Agent(old.address, one.address, other.address, **QUICK)),
    ):
        await old.registered()
        one.leadership.number, other.leadership.number = 5, 6
        one.leadership.leads = other.leadership.leads = True
        await other.registered()
        assert one.fleet.of("register") == []


async def test_orders_of_the_old_leader_are_refused_from_then_on():
    async with (
        running(ControlPlane(term=4)) as old,
        running(ControlPlane(leads=False)) as new,
        dialling(Agent(old.address, new.address, **QUICK)) as agent,
    ):
        await old.registered()
        new.leadership.leads, new.leadership.number = True, 9
        await new.registered()
        await eventually(lambda: agent.session.status.term == 9)
        with pytest.raises(NotConnected):
            old.dispatcher.stop("node01", "llama-1.0")
        connection = new.connections.find("node01")
        connection.send(wire_shards.pack_stop("of.old", term=4))
        connection.send(wire_shards.pack_stop("of.new", term=9))
        await eventually(lambda: agent.orders.asked)
        assert agent.orders.asked == [("stop", "of.new")]


async def test_control_planes_that_are_away_or_hang_hold_nothing_up():
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        hangs = f"127.0.0.1:{hanging.getsockname()[1]}"
        async with (
            running(ControlPlane(term=4)) as leader,
            dialling(Agent(leader.address, "127.0.0.1:1", hangs, **QUICK)) as agent,
        ):
            await leader.registered()
            await eventually(lambda: len(leader.fleet.of("heartbeat")) >= 5)
            assert agent.session.status.sessions == 1


async def test_one_that_was_away_is_asked_again_and_found(site):
    tls = site.server()
    async with running(ControlPlane(term=4, tls=tls)) as old:
        new = ControlPlane(leads=True, term=5, tls=tls)
        async with running(new):
            port = new.port
        agent = Agent(
            f"localhost:{old.port}", f"localhost:{port}", tls=site.node("node01"), **QUICK
        )
        async with dialling(agent):
            await old.registered()
            await asyncio.sleep(0.2)
            again = ControlPlane(leads=True, term=5, tls=tls, port=port)
            async with running(again):
                await again.registered()
                await eventually(lambda: agent.session.status.term == 5)
                assert agent.session.status.address == f"https://localhost:{port}"


async def test_a_standby_tells_no_term():
    async with running(ControlPlane(leads=False, term=7)) as plane:
        channel = channels.open_channel(plane.address, tls=None)
        try:
            stub = agent_pb2_grpc.AgentServiceStub(channel)
            reply = await stub.Standing(pb.StandingRequest(), timeout=10)
            assert (reply.leads, reply.term) == (False, 0)
            plane.leadership.leads = True
            reply = await stub.Standing(pb.StandingRequest(), timeout=10)
            assert (reply.leads, reply.term) == (True, 7)
        finally:
            await channel.close(grace=None)
