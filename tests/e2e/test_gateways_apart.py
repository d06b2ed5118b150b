"""Gateways on hosts of their own: what their clients see while control planes go and come.

``LLMGW_TEST_OUTAGE_S=600`` makes the outage of all control planes ten minutes long.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time

import httpx
import pytest

from llmgw.rpc import authority
from tests.fakes.crowd import Crowd, Ending, Habits, summary
from tests.fakes.deployment import CLIENTS, Deployment, until
from tests.fakes.stores import make_room

OUTAGE_S = float(os.environ.get("LLMGW_TEST_OUTAGE_S", "20"))
LONG_S = 90.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240 + int(OUTAGE_S))]

MODEL = {
    "name": "sim",
    "source": "sim",
    "scaling": {"min": 2},
    "profiles": [{"name": "cpu", "engine": "sim", "args": ["--tpot-ms", "20"]}],
}
CALM = Habits(leave_share=0.0, think_s=0.3)


def pairs(root):
    """Certificates of a control plane, two nodes and a gateway."""
    ca, now = root / "ca", time.time()
    authority.init_ca(ca, now=now)

    def told(issued):
        return {"ca": str(issued.ca), "cert": str(issued.cert), "key": str(issued.key)}

    server = authority.issue_server(
        ca, out=root / "cp", name="localhost", hosts=["127.0.0.1"], now=now
    )
    clients = {
        name: authority.issue_client(ca, out=root / name / "tls", node_id=name, now=now)
        for name in ("node1", "node2", "gateway-gw01")
    }
    return told(server), {name: told(issued) for name, issued in clients.items()}


@pytest.fixture
def site(deployment):
    """A server, two nodes with their engines, and a gateway, all by mutual TLS."""
    server, clients = pairs(deployment.root)
    at = f"https://{deployment.agent_address}"
    deployment.server(models=[MODEL], agent_tls=server)
    gateway = deployment.gateway(server=at, tls=clients["gateway-gw01"])
    for number in (1, 2):
        deployment.agent(number, server=at, tls=clients[f"node{number}"])
    deployment.wait_ready("sim", 2, within_s=LONG_S)
    until(lambda: shown(deployment).get("is_current"), "the gateway has the table of both")
    return deployment, gateway


def shown(one):
    """The gateway as ``ctl status`` shows it."""
    found = one.show("status")["control"]["gateways"]
    return found[0] if found else {}


def failed(crowd):
    return [visit for visit in crowd.visits if visit.ending is not Ending.COMPLETED]


async def test_no_request_fails_while_all_control_planes_are_away_and_nothing_is_restarted(site):
    deployment, gateway = site
    server, engines = deployment.parts["server"], deployment.engines()
    assert len(engines) == 2
    async with Crowd(gateway.port, clients=8, habits=CALM) as crowd:
        await crowd.more(8, within_s=30)
        assert await asyncio.to_thread(server.stop) == 0
        stopped_at = time.monotonic()
        # The gateway's own parent may be gone too: its workers serve on, and are taken over.
        gateway.part.kill()
        workers = deployment.workers(run_dir=gateway.run_dir)
        await crowd.more(8, within_s=30)
        gateway.part.start()
        await asyncio.to_thread(gateway.part.wait_said, CLIENTS)
        assert deployment.workers(run_dir=gateway.run_dir) == workers
        await asyncio.sleep(max(0.0, stopped_at + OUTAGE_S - time.monotonic()))
        asked_away = len(crowd.visits)
        server.start()
        await asyncio.to_thread(server.wait_said, CLIENTS)
        current = await asyncio.to_thread(
            until, lambda: shown(deployment).get("is_current"), "the gateway has the new table"
        )
        assert current
        await crowd.more(8, within_s=30)
    assert not failed(crowd), summary(crowd.visits)
    assert asked_away > 16
    assert deployment.engines() == engines


def test_a_gateway_that_was_killed_whole_serves_from_disk_while_no_control_plane_is_there(site):
    deployment, gateway = site
    server, engines = deployment.parts["server"], deployment.engines()
    assert server.stop() == 0
    gateway.part.kill()
    for pid in deployment.workers(run_dir=gateway.run_dir):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not deployment.workers(run_dir=gateway.run_dir), "its workers ended")
    kept = gateway.state_dir / "routes.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    gateway.part.start()
    gateway.part.wait_said(CLIENTS)
    until(gateway.is_ready, "it is ready")
    assert answer(gateway).status_code == 200
    page = httpx.get(f"http://127.0.0.1:{gateway.admin_port}/metrics", timeout=5).text
    assert "\nllmgw_control_plane_connected 0\n" in page
    assert '\nllmgw_worker_up{worker="0"} 1\n' in page
    server.start()
    server.wait_said(CLIENTS)
    until(lambda: shown(deployment).get("is_current"), "the gateway has the new table")
    assert answer(gateway).status_code == 200
    assert deployment.engines() == engines
    assert gateway.part.stop() == 0
    assert shown(deployment) == {}


def test_a_gateway_without_any_table_is_not_ready_and_says_why(deployment):
    gateway = deployment.gateway(metrics_listen="127.0.0.1:0")
    assert httpx.get(f"{gateway.url}/ready", timeout=5).status_code == 503
    told = httpx.get(f"http://127.0.0.1:{gateway.admin_port}/ready", timeout=5)
    assert told.status_code == 503
    assert "no control plane has told what is served" in told.text
    page = httpx.get(gateway.part.wait_said(r"^metrics +(\S+)"), timeout=5).text
    assert "\nllmgw_control_plane_connected 0\n" in page
    assert gateway.part.stop() == 0


def test_a_request_at_the_gateway_loads_a_model_and_its_use_is_known(deployment):
    on_demand = {**MODEL, "scaling": {"min": 0, "max": 1}}
    deployment.server(models=[on_demand], control={"interval": 1, "expect_nodes": ["node1"]})
    gateway = deployment.gateway()
    deployment.agent(1)
    until(lambda: shown(deployment).get("is_current"), "the gateway has a table")
    assert deployment.engines() == {}
    assert answer(gateway, within_s=LONG_S).status_code == 200
    (replica,) = until(
        lambda: [one for one in deployment.ready("sim") if one["idle_s"] is not None],
        "the control plane knows when it was used",
    )
    assert replica["idle_s"] < 30


@pytest.fixture
def standby(deployment, tmp_path):
    """A second server, in a folder of its own; ended before the first one's are looked for."""
    made = Deployment(tmp_path / "second")
    made.root.mkdir()
    yield made
    made.close()
    made.replay()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
async def test_a_gateway_follows_whoever_leads_and_its_clients_see_nothing_of_it(
    deployment, standby, postgres, end
):
    wishes = {"models": [MODEL], "auth": {"store": make_room(postgres)}}
    deployment.server(**wishes)
    standby.server(**wishes)
    others = [f"http://{standby.agent_address}"]
    gateway = deployment.gateway(servers=others)
    for number in (1, 2):
        deployment.agent(number, servers=others)
    deployment.wait_ready("sim", 2, within_s=LONG_S)
    until(lambda: shown(deployment).get("is_current"), "the gateway has the table of both")
    engines, term = deployment.engines(), shown(deployment)["term"]
    async with Crowd(gateway.port, clients=8, habits=CALM) as crowd:
        await crowd.more(8, within_s=30)
        os.kill(deployment.parts["server"].pid, end)
        await asyncio.to_thread(
            until,
            lambda: shown(standby).get("is_current") and shown(standby)["term"] > term,
            "the gateway follows the new leader",
            within_s=LONG_S,
        )
        await crowd.more(8, within_s=30)
    assert not failed(crowd), summary(crowd.visits)
    assert deployment.engines() == engines


def answer(gateway, *, within_s=10.0):
    body = {"model": "sim", "messages": [{"role": "user", "content": "hi"}]}
    return httpx.post(f"{gateway.url}/v1/chat/completions", json=body, timeout=within_s)
