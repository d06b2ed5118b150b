"""A node is emptied while clients stream: its replica serves until another one does elsewhere."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.e2e.test_survival import CLIENTS, MODEL, Crowd

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
