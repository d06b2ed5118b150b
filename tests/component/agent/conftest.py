"""A node's model files, downloaded into a folder of the test's own."""

from __future__ import annotations

import pytest

from llmgw.agent.weights.fetching import Weights
from llmgw.agent.weights.retrying import Retries
from llmgw.config.tending import WeightsSettings
from llmgw.kit.backoff import Backoff
from llmgw.kit.clock import SystemClock

AT_ONCE = Retries(backoff=Backoff(base_s=0.01, max_s=0.02))


@pytest.fixture
async def shelf_at(tmp_path):
    """Makes the downloads of an agent that asks the hub at an address."""
    made = []

    def build(url, *, token="", retries=AT_ONCE, clock=None, **settings):
        made.append(
            Weights(
                folder=str(tmp_path / "cache"),
                clock=clock or SystemClock(),
                settings=WeightsSettings(hub_url=url, keep_free=0, **settings),
                token=lambda: token,
                retries=retries,
            )
        )
        return made[-1]

    yield build
    for one in made:
        await one.close()
