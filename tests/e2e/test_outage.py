"""All control planes are gone for a minute under load: no request fails, and nothing is restarted.

``OUTAGE_SECONDS`` makes it longer or shorter; ten minutes are tried by hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time

import httpx
import pytest

from tests.e2e.test_survival import MODEL, Crowd
from tests.fakes.deployment import Deployment, until

OUTAGE_S = float(os.environ.get("OUTAGE_SECONDS", "60"))
CLIENTS = 10
"""Few: it is the time that matters, and others measure meanwhile."""

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(2 * OUTAGE_S + 240)]


@pytest.fixture
def standby(tmp_path):
    """A second server, in a folder of its own."""
    made = Deployment(tmp_path / "second")
    made.root.mkdir()
    yield made
    made.close()
    made.replay()


@pytest.fixture
def pair(deployment, standby, tmp_path):
    """A leader and a standby on one store, two nodes, three replicas."""
    wishes = {"models": [MODEL], "auth": {"store": str(tmp_path / "store.db")}}
    deployment.server(**wishes)
    standby.server(**wishes)
    for number in (1, 2):
        deployment.agent(number, servers=[f"http://{standby.agent_address}"])
    deployment.wait_ready("sim", 3, within_s=60)
    return deployment, standby


async def test_a_minute_without_any_control_plane_is_noticed_by_nobody(pair):
    leader, standby = pair
    engines, workers = leader.engines(), leader.workers()
    replicas = {r["replica_id"] for r in leader.ready("sim")}
    async with Crowd(leader.url, clients=CLIENTS) as crowd:
        await crowd.more(2 * CLIENTS)
        for one in pair:
            one.parts["server"].kill()
        gone_at = time.monotonic()
        while time.monotonic() - gone_at < OUTAGE_S:
            await crowd.more(CLIENTS)
        assert leader.engines() == engines
        leader.parts["server"].start()
        standby.parts["server"].start()
        back = asyncio.to_thread(until, lambda: any(map(is_whole, pair)), "one leads", within_s=90)
        await back
        await crowd.more(4 * CLIENTS)
    assert (crowd.seen.failed, crowd.seen.broken) == ([], [])
    assert leader.engines() == engines
    assert leader.workers() == workers
    new = next(one for one in pair if is_whole(one))
    assert {r["replica_id"] for r in new.ready("sim")} == replicas


def is_whole(one):
    """Whether it leads and has taken in all that runs."""
    with contextlib.suppress(httpx.HTTPError):
        return len(one.ready("sim")) == 3
    return False
