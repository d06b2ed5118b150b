"""Who may speak for a node, and how the one who may not finds out why."""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import replace

import pytest

from llmgw.errors import AlreadyHeld, SettingsInvalid
from llmgw.rpc import channels
from llmgw.rpc.v1 import agent_pb2 as pb
from llmgw.rpc.v1 import agent_pb2_grpc
from tests.fakes.rpc_stage import Agent, ControlPlane, dialling, running
from tests.fakes.waiting import eventually

DAY_S = 86400.0


def reasons(agent_log, event="not_registered"):
    return [keys["reason"] for name, keys in agent_log if name == event]


async def test_a_node_registers_with_its_certificate(site):
    async with (
        running(ControlPlane(tls=site.server())) as plane,
        dialling(Agent(plane.address, tls=site.node())) as agent,
    ):
        await plane.registered()
        await eventually(lambda: agent.session.status.is_registered)
        assert agent.session.status.address == f"https://{plane.address}"


async def test_a_certificate_for_another_node_is_refused_and_both_are_named_on_its_log(
    site, agent_log
):
    """The agent's own check would find it first, so the node's id is taken from the certificate."""
    async with running(ControlPlane(tls=site.server())) as plane:
        agent = Agent(plane.address, node_id="node02", tls=site.node("node02"))
        agent.facts.node = replace(agent.facts.node, node_id="node03")
        async with dialling(agent):
            await eventually(lambda: agent.refusal)
        assert plane.fleet.events == []
        (refusal,) = plane.turned_away.refusals()
    (reason,) = reasons(agent_log)
    assert "certificate CN 'node02' does not match node id 'node03'" in reason
    assert refusal.message in reason
    assert (refusal.node_id, refusal.common_name, refusal.code) == (
        "node03",
        "node02",
        "identity_mismatch",
    )


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        pytest.param(
            lambda site: replace(site.node(), cert="/absent/node01.pem"),
            "/absent/node01.pem: no such file",
            id="missing",
        ),
        pytest.param(lambda site: site.node(now=site.now - 60 * DAY_S), "expired on", id="expired"),
        pytest.param(
            lambda site: replace(site.node(ca="foreign"), ca=site.node().ca),
            "was signed by 'llmgw CA",
            id="foreign",
        ),
        pytest.param(
            lambda site: site.node("node02"),
            "names 'node02', but this node is 'node01'",
            id="other",
        ),
    ],
)
async def test_a_bad_certificate_is_found_before_dialling(site, agent_log, spoil, expected):
    dialled = []
    server = await asyncio.start_server(lambda *_: dialled.append(1), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, dialling(Agent(f"127.0.0.1:{port}", tls=spoil(site))) as agent:
        await eventually(lambda: agent.refusal)
        assert expected in agent.refusal
        assert dialled == []
        assert agent.facts.scans == 0
    assert expected in reasons(agent_log)[0]


async def test_a_renewed_certificate_is_used_without_a_restart(site, tmp_path):
    good, own = site.node(), tmp_path / "own.pem"
    async with (
        running(ControlPlane(tls=site.server())) as plane,
        dialling(
            Agent(plane.address, tls=replace(good, cert=str(own)), reconnect_base_s=0.05)
        ) as agent,
    ):
        await eventually(lambda: "no such file" in agent.refusal)
        shutil.copy(good.cert, own)
        await plane.registered()
        assert plane.connections.node_ids() == {"node01"}


@pytest.mark.parametrize(
    ("server", "node", "expected"),
    [
        pytest.param({}, {"ca": "foreign"}, "was not signed by the authority in", id="foreign"),
        pytest.param({"name": "other", "hosts": ()}, {}, "--host 127.0.0.1", id="other name"),
    ],
)
async def test_a_control_plane_that_cannot_be_believed_is_explained(site, server, node, expected):
    async with (
        running(ControlPlane(tls=site.server(**server))) as plane,
        dialling(Agent(plane.address, tls=site.node(**node))) as agent,
    ):
        await eventually(lambda: agent.refusal)
        assert expected in agent.refusal


async def test_a_socket_closed_in_the_handshake_names_causes_and_a_command(site):
    """The control plane trusts another authority than ours: TLS tells the client nothing."""
    server = replace(site.server(), ca=site.node(ca="foreign").ca)
    async with (
        running(ControlPlane(tls=server)) as plane,
        dialling(Agent(plane.address, tls=site.node())) as agent,
    ):
        await eventually(lambda: agent.refusal)
        assert "its authority is another one" in agent.refusal
        assert "llmgw ctl cert inspect" in agent.refusal


async def test_plaintext_to_a_port_that_wants_certificates_is_explained(site):
    async with (
        running(ControlPlane(tls=site.server())) as plane,
        dialling(Agent(f"http://{plane.address}")) as agent,
    ):
        await eventually(lambda: agent.refusal)
        assert "give tls.ca, tls.cert and tls.key" in agent.refusal


async def test_a_certificate_to_a_plaintext_port_is_explained(site):
    async with (
        running(ControlPlane()) as plane,
        dialling(Agent(plane.address, tls=site.node())) as agent,
    ):
        await eventually(lambda: agent.refusal)
        assert "does not speak TLS" in agent.refusal


async def test_a_node_without_identity_is_refused_where_one_is_required():
    async with (
        running(ControlPlane(must_identify=True)) as plane,
        dialling(Agent(plane.address)) as agent,
    ):
        await eventually(lambda: agent.refusal)
        assert "'node01' showed no client certificate" in agent.refusal
        assert plane.fleet.events == []


async def test_a_plaintext_address_beside_certificates_is_refused_at_construction(site):
    with pytest.raises(SettingsInvalid) as raised:
        Agent("cp1:7443", "http://cp2:7443", tls=site.node())
    assert "'http://cp2:7443' is plaintext" in str(raised.value.problems[0])


async def test_a_control_plane_whose_own_certificate_will_be_refused_says_so_at_start(site, caplog):
    async with running(ControlPlane(tls=site.node())):
        problems = [r.keys["problem"] for r in caplog.records if r.message == "agents_will_refuse"]
    assert "is no server's certificate" in problems[0]


async def test_two_servers_do_not_share_a_port(site):
    async with running(ControlPlane(tls=site.server())) as plane:
        with pytest.raises(AlreadyHeld, match=plane.address):
            channels.bind(channels.make_server(), address=plane.address, tls=None)


async def test_a_stream_without_a_registration_is_ended_in_time():
    async with running(ControlPlane(first_s=0.05)) as plane:
        channel = channels.open_channel(plane.address, tls=None)
        began_at = time.monotonic()
        call = agent_pb2_grpc.AgentServiceStub(channel).Connect()
        assert "no registration within" in await call.details()
        assert time.monotonic() - began_at < 5
        await channel.close()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (pb.AgentMessage(heartbeat=pb.Heartbeat(node_id="node01")), "must be a registration"),
        (pb.AgentMessage(register=pb.Register(node_id="../x")), "is no node id"),
    ],
    ids=["heartbeat", "bad id"],
)
async def test_a_first_message_that_makes_no_sense_is_refused(message, expected):
    async with running(ControlPlane()) as plane:
        channel = channels.open_channel(plane.address, tls=None)
        call = agent_pb2_grpc.AgentServiceStub(channel).Connect()
        await call.write(message)
        assert expected in await call.details()
        assert plane.fleet.events == []
        await channel.close()
