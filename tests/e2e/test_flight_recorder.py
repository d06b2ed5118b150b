"""What a control plane decided while things happened to it is decided the same from its journal."""

from __future__ import annotations

import json

import pytest

from llmgw.control.recorder import journal
from tests.e2e.test_survival import MODEL
from tests.fakes import commands
from tests.fakes.deployment import until

pytestmark = pytest.mark.slow


def kinds(found):
    return {action["kind"] for one in found for action in one.decided["actions"]}


def test_a_run_with_a_killed_server_and_a_drained_node_replays_the_same(deployment):
    server = deployment.server(models=[{**MODEL, "scaling": {"min": 2}}], agent_tls="insecure")
    for number in (1, 2):
        deployment.agent(number)
    deployment.wait_ready("sim", 2)
    server.kill()
    server.start()
    deployment.wait_ready("sim", 2)
    deployment.ctl("drain", deployment.ready("sim")[0]["shards"][0]["node_id"])
    folder = deployment.root / "state"
    until(lambda: {"Place", "Move"} <= kinds(journal.read(folder)), "a replica moves")
    bundle = deployment.root / "support.tar.gz"
    assert deployment.ctl("support-bundle", "--out", str(bundle)).returncode == 0
    server.stop()
    assert commands.run("replay", str(bundle)).returncode == 0
    done = commands.run("replay", str(folder), "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["is_same"], told["differing"]) == (0, True, [])
    assert told["passes"] > 5
    assert told["actions"] >= 3


def test_a_running_fleet_is_asked_ahead_and_shows_its_figures(deployment):
    deployment.server(models=[{**MODEL, "scaling": {"min": 1}}], agent_tls="insecure")
    for number in (1, 2):
        deployment.agent(number)
    deployment.wait_ready("sim", 1)
    (before,) = deployment.ready("sim")
    node = before["shards"][0]["node_id"]
    assert "nothing to do" in deployment.ctl("plan").stdout
    told = json.loads(deployment.ctl("what-if", "drain", node, "--json").stdout)
    moved = [action["kind"] for one in told["passes"] for action in one["actions"]]
    assert (moved[:2], told["is_enough"]) == (["move", "place"], True)
    lost = deployment.ctl("what-if", "lose", node)
    assert lost.returncode == 0, lost.stderr
    (after,) = deployment.ready("sim")
    assert after["replica_id"] == before["replica_id"], "nothing was applied"
    figures = deployment.figures()
    assert (figures["llmgw_leader"], figures["llmgw_model_replicas_ready"]) == (1, 1)
    assert (figures["llmgw_node_up"], figures["llmgw_agent_streams"]) == (2, 2)
    assert "llmgw_requests_inflight" in figures
