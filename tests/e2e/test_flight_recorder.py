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
    server.stop()
    done = commands.run("replay", str(folder), "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["is_same"], told["differing"]) == (0, True, [])
    assert told["passes"] > 5
    assert told["actions"] >= 3
