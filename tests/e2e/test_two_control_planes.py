"""Two servers on one PostgreSQL: what a standby is; ``test_five_faults`` has the leader end."""

from __future__ import annotations

import httpx
import pytest

from tests.fakes.deployment import Deployment
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
