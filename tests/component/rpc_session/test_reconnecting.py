"""The conversation comes back: after restarts, to the leader, and to one agent only."""

from __future__ import annotations

import asyncio
import time

import pytest

from llmgw.domain.nodes import not_let_in
from llmgw.domain.replicas import LaunchProfile, ShardSpec, ShardState
from llmgw.errors import Banned, Standby, Unavailable
from llmgw.rpc import wire_shards
from tests.fakes.clock import FakeClock
from tests.fakes.rpc_stage import Agent, ControlPlane, dialling, running
from tests.fakes.waiting import eventually

SPEC = ShardSpec(
    replica_id="llama-1",
    shard_id="llama-1.0",
    profile=LaunchProfile(name="p", engine="sim", model_path="/w", served_model_name="m"),
    http_port=20000,
)


async def test_a_restarted_control_plane_has_its_node_back_within_two_seconds():
    async with running(ControlPlane()) as first, dialling(Agent(first.address)) as agent:
        await first.registered()
        await first.listener.close()
        await eventually(lambda: not agent.session.status.is_registered)
        async with running(ControlPlane(port=first.port)) as second:
            back_at = time.monotonic()
            await second.registered()
            assert time.monotonic() - back_at < 2


async def test_a_dropped_stream_is_opened_again_and_takes_orders():
    async with running(ControlPlane()) as plane, dialling(Agent(plane.address)) as agent:
        await plane.registered()
        plane.connections.end_all(Unavailable("dropped"))
        await eventually(lambda: len(plane.fleet.of("register")) == 2)
        await plane.registered()
        plane.dispatcher.drain("node01", "unknown.0")
        await eventually(lambda: agent.orders.asked == [("drain", "unknown.0")])
        assert agent.session.status.sessions == 2


# Several control planes


async def test_a_standby_refuses_before_reading_and_the_leader_is_found_at_once(agent_log):
    async with (
        running(ControlPlane(leads=False)) as standby,
        running(ControlPlane()) as leader,
        dialling(Agent(standby.address, leader.address, reconnect_base_s=60, reconnect_max_s=60)),
    ):
        await leader.registered()
        assert standby.fleet.events == []
    assert "standby" in next(k["reason"] for event, k in agent_log if event == "not_registered")


async def test_a_dead_address_costs_no_pause():
    async with (
        running(ControlPlane()) as plane,
        dialling(
            Agent("127.0.0.1:1", plane.address, reconnect_base_s=60, reconnect_max_s=60)
        ) as agent,
    ):
        await plane.registered()
        assert agent.session.status.address == f"http://{plane.address}"


async def test_a_leader_that_steps_down_sends_its_nodes_away():
    async with (
        running(ControlPlane()) as old,
        running(ControlPlane(leads=False)) as new,
        dialling(Agent(old.address, new.address)) as agent,
    ):
        await old.registered()
        old.leadership.leads, new.leadership.leads = False, True
        old.connections.end_all(Standby("this control plane is a standby now"))
        await new.registered()
        assert old.fleet.of("lost") == [("lost", "node01")]
        assert agent.session.status.address == f"http://{new.address}"


# Terms


async def test_orders_of_a_deposed_leader_are_refused_and_a_start_is_answered():
    async with running(ControlPlane(term=5)) as plane, dialling(Agent(plane.address)) as agent:
        await plane.registered()
        await eventually(lambda: agent.session.status.term == 5)
        plane.leadership.number = 4
        plane.dispatcher.stop("node01", "llama-1.0")
        plane.dispatcher.drain("node01", "llama-1.0")
        plane.dispatcher.start("node01", SPEC)
        await eventually(lambda: plane.fleet.of("report"))
        ((_, failed),) = plane.fleet.of("report")
        assert failed.state is ShardState.FAILED
        assert "term 4 is over: this node has seen term 5" in failed.error
        assert agent.orders.asked == []


async def test_orders_without_a_term_and_with_a_newer_one_are_carried_out():
    async with running(ControlPlane(term=5)) as plane, dialling(Agent(plane.address)) as agent:
        await plane.registered()
        connection = plane.connections.find("node01")
        connection.send(wire_shards.pack_stop("a.0", term=0))
        connection.send(wire_shards.pack_stop("b.0", term=6))
        await eventually(lambda: len(agent.orders.asked) == 2)
        assert agent.session.status.term == 6


async def test_a_deposed_leader_is_told_by_the_registration_and_keeps_no_node():
    async with (
        running(ControlPlane(term=5)) as leader,
        running(ControlPlane(term=4)) as deposed,
        dialling(Agent(leader.address, deposed.address)) as agent,
    ):
        await leader.registered()
        await leader.listener.close()
        await eventually(lambda: "it leads in term 4" in agent.refusal)
        assert deposed.fleet.events == []


# One stream a node


async def test_the_same_agent_is_back_at_once_and_its_older_streams_end_leaves_the_new_usable(
    agent_log,
):
    async with running(ControlPlane()) as plane:
        older = Agent(plane.address, reconnect_base_s=60, reconnect_max_s=60)
        newer = Agent(plane.address)
        newer.session._instance = older.session._instance
        async with dialling(older):
            await eventually(lambda: older.session.status.is_registered)
            async with dialling(newer):
                await eventually(lambda: "opened a newer stream" in older.refusal)
                assert plane.fleet.of("lost") == []
                plane.dispatcher.stop("node01", "llama-1.0")
                await eventually(lambda: newer.orders.asked)
                assert older.orders.asked == []
    assert [event for event, _ in agent_log].count("session_ended") == 1


async def test_a_second_agent_of_one_name_is_kept_out_while_the_first_is_heard(agent_log):
    async with running(ControlPlane()) as plane, dialling(Agent(plane.address)) as first:
        await eventually(lambda: first.session.status.is_registered)
        async with dialling(Agent(plane.address, reconnect_base_s=0.05)) as second:
            await eventually(lambda: "another agent instance is connected" in second.refusal)
            assert "from ipv4:127.0.0.1:" in second.refusal
            await eventually(lambda: plane.turned_away.refusals()[0].count >= 3)
            assert (first.session.status.sessions, second.session.status.sessions) == (1, 0)
            assert len(plane.fleet.of("register")) == 1
            assert plane.fleet.of("lost") == []
    told = [k for event, k in agent_log if event == "not_registered"]
    assert len(told) == 1, "the same refusal is told once in a while"


async def test_a_second_agent_of_one_name_is_let_in_when_the_first_is_silent():
    clock = FakeClock()
    async with running(ControlPlane(clock=clock)) as plane:
        silent = Agent(plane.address, heartbeat_s=60, reconnect_base_s=60, reconnect_max_s=60)
        async with dialling(silent):
            await eventually(lambda: silent.session.status.is_registered)
            second = Agent(plane.address, reconnect_base_s=0.05, reconnect_max_s=0.05)
            async with dialling(second):
                await eventually(lambda: "silent for 120 s" in second.refusal)
                clock.advance(120)
                await eventually(lambda: second.session.status.is_registered)
                await eventually(lambda: "opened a newer stream" in silent.refusal)
                both = (silent.session.status, second.session.status)
                assert [one.is_registered for one in both] == [False, True]


async def test_a_second_agent_of_one_name_is_let_in_when_the_first_has_left():
    async with running(ControlPlane()) as plane:
        async with dialling(Agent(plane.address, heartbeat_s=60)):
            await plane.registered()
        async with dialling(Agent(plane.address, reconnect_base_s=0.05)) as second:
            await eventually(lambda: second.session.status.is_registered)
            assert len(plane.fleet.of("register")) == 2


async def test_a_lost_stream_is_told_to_the_fleet_once():
    async with running(ControlPlane()) as plane:
        async with dialling(Agent(plane.address)):
            await plane.registered()
        await eventually(lambda: plane.fleet.of("lost"))
        assert plane.fleet.of("lost") == [("lost", "node01")]
        assert plane.connections.node_ids() == frozenset()


async def test_a_banned_node_is_refused_with_a_reason_that_its_agent_logs(agent_log):
    async with running(ControlPlane()) as plane:
        plane.fleet.error = Banned("node 'node01' is banned here")
        async with dialling(Agent(plane.address)) as agent:
            await eventually(lambda: agent.refusal)
            assert "node 'node01' is banned here" in agent.refusal
        (turned_away,) = plane.turned_away.refusals()
        assert (turned_away.node_id, turned_away.code) == ("node01", "banned")
    told = [keys["reason"] for event, keys in agent_log if event == "not_registered"]
    assert told
    assert "node 'node01' is banned here" in told[0]


async def test_a_node_that_is_banned_while_it_is_connected_loses_its_stream_at_once(agent_log):
    async with running(ControlPlane()) as plane:
        async with dialling(Agent(plane.address)) as agent:
            await plane.registered()
            plane.fleet.error = not_let_in("node01")
            plane.dispatcher.dismiss("node01", not_let_in("node01"))
            assert plane.connections.node_ids() == frozenset()
            await eventually(lambda: plane.fleet.of("lost"))
            await eventually(lambda: "'node01' is banned here" in agent.refusal)
            plane.dispatcher.dismiss("node01", not_let_in("node01"))
        assert {one.code for one in plane.turned_away.refusals()} == {"banned"}


# Ending


async def test_an_agent_that_stops_is_gone_within_five_seconds():
    async with running(ControlPlane()) as plane:
        agent = Agent(plane.address)
        task = asyncio.create_task(agent.session.run())
        await plane.registered()
        began_at = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began_at < 5


async def test_a_control_plane_that_stops_tells_its_nodes_and_is_gone_soon():
    plane = ControlPlane()
    async with running(plane), dialling(Agent(plane.address)) as agent:
        await plane.registered()
        began_at = time.monotonic()
        await plane.listener.close()
        assert time.monotonic() - began_at < 3
        await eventually(lambda: agent.refusal)
        assert "is stopping" in agent.refusal


@pytest.mark.slow
async def test_silence_is_allowed_and_a_cut_cable_is_noticed_on_both_sides():
    """Over ten seconds: keepalive pings must not be answered by an end, and must find one."""
    async with running(ControlPlane()) as plane, Cable(plane.port) as cable:
        agent = Agent(f"127.0.0.1:{cable.port}", heartbeat_s=60)
        async with dialling(agent):
            await plane.registered()
            await asyncio.sleep(12)
            assert agent.session.status.sessions == 1
            cable.cut()
            await eventually(lambda: not agent.session.status.is_registered, within_s=13)
            await eventually(lambda: plane.fleet.of("lost"), within_s=13)


class Cable:
    """Carries bytes to a port until it is cut; then nothing passes and nobody is told."""

    def __init__(self, port):
        self._to = port
        self._passes = True

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks = []
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self):
        self._passes = False

    async def _join(self, reader, writer):
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._tasks += [
            asyncio.create_task(self._carry(reader, back)),
            asyncio.create_task(self._carry(there, writer)),
        ]

    async def _carry(self, reader, writer):
        try:
            while chunk := await reader.read(65536):
                if self._passes:
                    writer.write(chunk)
        finally:
            writer.close()
