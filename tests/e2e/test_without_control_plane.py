"""What still works while the server is dead: everything that clients see."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from tests.e2e.test_survival import MODEL, Crowd

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

_DEAD_S = 12.0
"""Longer than figures stay fresh and than a silent endpoint is left in use."""


@pytest.fixture
def fleet(deployment):
    places = deployment.places()
    deployment.server(
        models=[{**MODEL, "scaling": {"min": 1}}],
        agent_tls="insecure",
        gateway={**places["gateway"], "workers": 2},
        control={"interval": 1, "expect_nodes": ["node1"]},
    )
    deployment.agent(1)
    deployment.wait_ready("sim", 1)
    return deployment


def asked(fleet):
    """The id of a request that was answered."""
    body = {"model": "sim", "messages": [{"role": "user", "content": "hi"}]}
    answer = httpx.post(f"{fleet.url}/v1/chat/completions", json=body, timeout=30)
    assert answer.status_code == 200
    return answer.headers["x-request-id"]


def receipt(fleet, request_id):
    return httpx.get(f"{fleet.url}/v1/requests/{request_id}", timeout=10)


async def test_traffic_readiness_and_receipts_do_without_a_server(fleet):
    served = await asyncio.to_thread(lambda: [asked(fleet) for _ in range(8)])
    fleet.parts["server"].kill()
    died_at = time.monotonic()
    async with Crowd(fleet.url) as crowd:
        while time.monotonic() - died_at < _DEAD_S:
            await crowd.more(20)
    assert (crowd.seen.failed, crowd.seen.broken) == ([], [])

    await asyncio.to_thread(look, fleet, served)
    fleet.parts["server"].start()
    await asyncio.to_thread(fleet.wait_ready, "sim", 1)
    await asyncio.to_thread(look_for_receipts, fleet, served)


def look(fleet, served):
    ready = httpx.get(f"{fleet.url}/ready")
    assert ready.status_code == 200
    assert ready.json()["table_age_s"] >= _DEAD_S - 1
    look_for_receipts(fleet, served)
    unknown = receipt(fleet, "nobodys")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")


def look_for_receipts(fleet, served):
    """Each connection is at one of two workers, so half of these are not where they were served."""
    for request_id in served * 2:
        told = receipt(fleet, request_id)
        assert (told.status_code, told.json()["id"]) == (200, request_id)
