"""Nodes are emptied, lost or unheard while clients stream, and the server dies amid it."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest

from tests.e2e.test_survival import CLIENTS, MODEL, Crowd
from tests.fakes.deployment import until

pytestmark = pytest.mark.slow


@pytest.mark.timeout(150)  # what serves has a minute to end what it has begun
async def test_a_drained_node_costs_no_request(deployment):
    deployment.server(models=[{**MODEL, "scaling": {"min": 1}}], agent_tls="insecure")
    for number in (1, 2):
        deployment.agent(number)
    deployment.wait_ready("sim", 1)
    (before,) = deployment.ready("sim")
    node = before["shards"][0]["node_id"]
    async with Crowd(deployment.url) as crowd:
        await crowd.more(CLIENTS)
        draining = asyncio.to_thread(
            deployment.ctl, "drain", node, "--reason", "new cards", "--wait", "--timeout", "3m"
        )
        done = await draining
        await crowd.more(CLIENTS)
    assert done.returncode == 0, done.stderr
    assert (crowd.seen.failed, crowd.seen.broken) == ([], [])
    (after,) = deployment.ready("sim")
    assert after["shards"][0]["node_id"] != node
    shown = json.loads(deployment.ctl("nodes", "--json").stdout)["nodes"]
    (drained,) = (n for n in shown if n["node_id"] == node)
    assert (drained["state"], drained["replica_ids"]) == ("draining", [])


FEW = 8
LONG = {
    "name": "sim",
    "source": "sim",
    "scaling": {"min": 1},
    "profiles": [
        {
            "name": "cpu",
            "engine": "sim",
            "args": ["--load-s", "2", "--ttft-ms", "50", "--tpot-ms", "20", "--tokens", "150"],
        }
    ],
}
"""Streams that last three seconds, so that there are some whenever something happens."""


def restart(server):
    server.kill()
    server.start()


def states(deployment):
    return sorted(replica["state"] for replica in deployment.show("replicas")["replicas"])


@pytest.mark.timeout(200)
async def test_a_server_that_dies_twice_amid_a_drain_costs_no_request_and_goes_on_with_it(
    deployment,
):
    store = str(deployment.root / "store.db")
    server = deployment.server(models=[LONG], agent_tls="insecure", auth={"store": store})
    for number in (1, 2):
        deployment.agent(number)
    deployment.wait_ready("sim", 1)
    (before,) = deployment.ready("sim")
    node = before["shards"][0]["node_id"]
    async with Crowd(deployment.url, clients=FEW) as crowd:
        await crowd.more(FEW)
        said = await asyncio.to_thread(deployment.ctl, "drain", node, "--reason", "new cards")
        assert said.returncode == 0, said.stderr
        await see(lambda: len(deployment.engines()) == 2, "a replacement is started")
        replacement = set(deployment.engines()) - {before["url"].partition("//")[2]}
        await asyncio.to_thread(restart, server)
        await see(lambda: states(deployment) == ["draining", "ready"], "the old one may end")
        await asyncio.to_thread(restart, server)
        await see(lambda: set(deployment.engines()) == replacement, "the node is empty")
        await crowd.more(FEW)
    assert (crowd.seen.failed, crowd.seen.broken) == ([], [])
    deployment.wait_ready("sim", 1)
    (after,) = deployment.ready("sim")
    assert after["shards"][0]["node_id"] != node
    (drained,) = (n for n in deployment.show("nodes")["nodes"] if n["node_id"] == node)
    assert (drained["target"], drained["flag_reason"]) == ("draining", "new cards")


@pytest.mark.timeout(200)
async def test_a_machine_that_is_gone_costs_its_own_streams_and_is_replaced_though_the_server_died(
    deployment,
):
    for number in (1, 2):
        # Both dial before there is anybody, so that one is not late for the other's settling.
        deployment.agent(number).wait_said("not_registered")
    server = deployment.server(
        models=[{**LONG, "scaling": {"min": 2}}],
        agent_tls="insecure",
        control={
            "interval": 1,
            "unreachable_after": 3,
            "lost_after": 6,
            "settle_window": 10,
            "expect_nodes": ["node1", "node2"],
        },
    )
    deployment.wait_ready("sim", 2)
    engines = deployment.engines()
    gone = deployment.address(1)
    lost = {pid for address, pid in engines.items() if address.startswith(f"{gone}:")}
    assert len(lost) == 1
    async with Crowd(deployment.url, clients=FEW) as crowd:
        await crowd.more(FEW)
        deployment.parts["node1"].kill()
        for pid in lost:
            os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(restart, server)
        await see(lambda: len(deployment.engines()) == 2, "it is replaced")
        await asyncio.to_thread(deployment.wait_ready, "sim", 2)
        await crowd.more(2 * FEW)
    assert crowd.seen.failed == []
    assert set(crowd.seen.broken) <= lost
    assert set(engines.values()) - lost < set(deployment.engines().values())
    assert {r["shards"][0]["node_id"] for r in deployment.ready("sim")} == {"node2"}


@pytest.mark.timeout(200)
async def test_an_agent_that_stands_still_moves_nothing_while_its_engine_answers(deployment):
    deployment.server(
        models=[LONG],
        agent_tls="insecure",
        control={
            "interval": 1,
            "unreachable_after": 3,
            "lost_after": 4,
            "expect_nodes": ["node1", "node2"],
        },
    )
    for number in (1, 2):
        deployment.agent(number)
    deployment.wait_ready("sim", 1)
    (before,) = deployment.ready("sim")
    node, engines = before["shards"][0]["node_id"], deployment.engines()
    async with Crowd(deployment.url, clients=FEW) as crowd:
        await crowd.more(FEW)
        os.kill(deployment.parts[node].pid, signal.SIGSTOP)
        await see(lambda: state_of(deployment, node) == "lost", "its node is written off")
        await crowd.more(2 * FEW)
        assert deployment.engines() == engines
        os.kill(deployment.parts[node].pid, signal.SIGCONT)
        await see(lambda: state_of(deployment, node) == "ready", "its node is back")
        await crowd.more(FEW)
    assert (crowd.seen.failed, crowd.seen.broken) == ([], [])
    assert deployment.engines() == engines
    assert [r["replica_id"] for r in deployment.ready("sim")] == [before["replica_id"]]


def state_of(deployment, node_id):
    (node,) = (n for n in deployment.show("nodes")["nodes"] if n["node_id"] == node_id)
    return node["state"]


async def see(is_so, what):
    await asyncio.to_thread(until, is_so, what, within_s=60)
