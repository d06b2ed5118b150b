"""Who may watch routes and who may be a node: each by its own certificate, and by no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.rpc import channels
from tests.fakes import commands
from tests.fakes.gateway_ends import GatewayEnd, linked, table
from tests.fakes.rpc_stage import Agent, ControlPlane, dialling, running
from tests.fakes.waiting import eventually


async def test_a_nodes_certificate_watches_no_routes(site, monkeypatch):
    """The gateway's own check would find it first, so it is left out."""
    monkeypatch.setattr(channels, "check_own_pair", lambda *_, **__: None)
    async with running(ControlPlane(tls=site.server())) as plane:
        plane.routes.put(table(1, "a"))
        end = GatewayEnd(f"https://{plane.address}", tls=site.node("node01"))
        async with linked(end):
            await eventually(lambda: end.refusal)
            expected = "certificate CN 'node01' does not match 'gateway-gw01'"
            assert expected in end.refusal
            assert end.tables == []
        (refusal,) = plane.turned_away.refusals()
        assert (refusal.node_id, refusal.common_name) == ("gateway-gw01", "node01")
        assert refusal.code == "identity_mismatch"


async def test_a_gateways_certificate_is_no_nodes(site):
    async with running(ControlPlane(tls=site.server())) as plane:
        agent = Agent(plane.address, node_id="gateway-gw01", tls=site.node("gateway-gw01"))
        async with dialling(agent):
            await eventually(lambda: agent.refusal)
            assert "'gateway-gw01' names a gateway" in agent.refusal
        assert plane.fleet.events == []


async def test_a_certificate_of_another_gateway_is_found_before_dialling(site):
    end = GatewayEnd("https://127.0.0.1:1", tls=site.node("gateway-gw02"))
    async with linked(end):
        await eventually(lambda: end.refusal)
        assert "not dialled, because this gateway would be refused" in end.refusal
        assert "names 'gateway-gw02'" in end.refusal


async def test_without_a_certificate_nobody_watches_where_one_is_asked_for():
    async with running(ControlPlane(must_identify=True)) as plane:
        plane.routes.put(table(1, "a"))
        async with linked(GatewayEnd(f"http://{plane.address}")) as end:
            await eventually(lambda: end.refusal)
            assert "gateway 'gw01' showed no client certificate" in end.refusal
            assert end.tables == []


async def test_a_foreign_authority_is_explained_as_to_agents(site):
    server = replace(site.server(), ca=site.node(ca="foreign").ca)
    async with running(ControlPlane(tls=server)) as plane:
        end = GatewayEnd(f"https://{plane.address}", tls=site.node("gateway-gw01"))
        async with linked(end):
            await eventually(lambda: end.refusal)
            assert "its authority is another one" in end.refusal


async def test_a_second_gateway_of_the_same_name_is_kept_out_while_the_first_is_heard():
    async with running(ControlPlane()) as plane:
        plane.routes.put(table(1, "a"))
        first, second = (GatewayEnd(f"http://{plane.address}") for _ in range(2))
        async with linked(first):
            await first.has(table(1, "a"))
            async with linked(second):
                await eventually(lambda: second.refusal)
                assert "another gateway watches as gw01" in second.refusal
                assert first.link.status.is_open
        async with linked(GatewayEnd(f"http://{plane.address}")) as third:
            await third.has(table(1, "a"))


@pytest.mark.parametrize("way", ["issued", "enrolled"])
def test_a_gateway_gets_its_certificate_as_a_node_does(tmp_path, way):
    ca = str(tmp_path / "ca")
    run("init-ca", "--dir", ca)
    if way == "issued":
        done = run("issue-client", "gateway-gw01", "--dir", ca, "--out", str(tmp_path))
        assert "gateway-gw01" in done.stdout
        return
    asked = run("request", "gateway-gw01", "--dir", str(tmp_path))
    csr = tmp_path / "asked.csr"
    csr.write_text(asked.stdout)
    signed = run("sign", "--csr", str(csr), "--name", "gateway-gw01", "--dir", ca)
    assert "BEGIN CERTIFICATE" in signed.stdout


def run(*words):
    done = commands.run("ctl", "cert", *words)
    assert done.returncode == 0, done.stderr
    return done
