"""Two servers on one PostgreSQL: what happens to the leader is not seen by engines and clients."""

from __future__ import annotations

import os
import signal

import httpx
import pytest

from tests.fakes.deployment import Deployment, until
from tests.fakes.stores import make_room

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LONG_S = 90.0
MODEL = {
    "name": "sim",
    "source": "sim",
    "scaling": {"min": 2},
    "profiles": [{"name": "cpu", "engine": "sim"}],
}


@pytest.fixture
def standby(deployment, tmp_path):
    """A second server, in a folder of its own; ended before the first one's are looked for."""
    made = Deployment(tmp_path / "second")
    made.root.mkdir()
    yield made
    made.close()
    made.replay()


@pytest.fixture
def pair(deployment, standby, postgres):
    """The leader with two nodes and their engines, and a standby that knows of nothing."""
    wishes = {"models": [MODEL], "auth": {"store": make_room(postgres)}}
    deployment.server(**wishes)
    standby.server(**wishes)
    for number in (1, 2):
        deployment.agent(number, servers=[f"http://{standby.agent_address}"])
    deployment.wait_ready("sim", 2, within_s=LONG_S)
    return deployment, standby


def ready(one):
    return httpx.get(f"{one.admin_url}/ready", timeout=5)


def answer(one):
    body = {"model": "sim", "messages": [{"role": "user", "content": "hi"}]}
    return httpx.post(f"{one.url}/v1/chat/completions", json=body, timeout=10)


def control(one):
    return one.show("status")["control"]


def test_a_standby_is_alive_and_not_ready_and_names_the_leader(pair):
    leader, standby = pair
    assert (control(leader)["is_leader"], control(standby)["is_leader"]) == (True, False)
    assert ready(leader).status_code == 200
    assert httpx.get(f"{standby.admin_url}/health", timeout=5).status_code == 200
    refused = ready(standby)
    assert refused.status_code == 503
    assert f"this control plane is a standby; {leader.admin_url.partition('//')[2]} leads" in (
        refused.text
    )
    assert standby.show("replicas")["replicas"] == []


@pytest.mark.parametrize("end", ["killed", "stopped", "frozen"])
def test_the_standby_adopts_what_runs_and_nothing_is_started_anew(pair, end):
    leader, standby = pair
    server, engines, term = leader.parts["server"], leader.engines(), control(leader)["term"]
    assert len(engines) == 2
    if end == "killed":
        server.kill()
    elif end == "stopped":
        assert server.stop() == 0
    else:
        os.kill(server.pid, signal.SIGSTOP)
    until(lambda: control(standby)["is_leader"], "the standby leads", within_s=LONG_S)
    standby.wait_ready("sim", 2, within_s=LONG_S)
    assert control(standby)["term"] > term
    assert leader.engines() == engines
    until(lambda: answer(standby).status_code == 200, "the new leader's gateway answers")
    if end == "frozen":
        os.kill(server.pid, signal.SIGCONT)
        until(lambda: not control(leader)["is_leader"], "the old leader knows", within_s=LONG_S)
        until(lambda: ready(leader).status_code == 503, "the old leader stands by", within_s=LONG_S)
        assert answer(leader).status_code == 200  # its gateway goes on with the last routes
    assert control(standby)["is_leader"]
    assert leader.engines() == engines
