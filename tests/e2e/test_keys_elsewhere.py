"""A gateway on a host of its own asks for the same keys, and what was used there is kept."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from tests.fakes import charged_crowd, stores
from tests.fakes.deployment import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

MODEL = {
    "name": "sim",
    "source": "sim",
    "scaling": {"min": 1},
    "profiles": [{"name": "cpu", "engine": "sim", "args": ["--ttft-ms", "10", "--tokens", "4"]}],
}
ASK = {"model": "sim", "messages": [{"role": "user", "content": "hi"}]}


async def test_a_gateway_elsewhere_reads_keys_of_the_store_and_brings_its_account(
    deployment, opened, postgres
):
    address = stores.make_room(postgres)
    store = await opened(address)
    key = await charged_crowd.make_key(store, limits={"rpm": 2})
    auth = {"enabled": True, "store": address}
    await asyncio.to_thread(
        deployment.server,
        models=[MODEL],
        auth=auth,
        control={"interval": 1, "expect_nodes": ["node1"]},
    )
    deployment.agent(1)
    gateway = await asyncio.to_thread(deployment.gateway, auth=auth)
    await asyncio.to_thread(until, gateway.is_ready, "the gateway has somebody to send to")
    begun_at = time.time() - 1
    async with httpx.AsyncClient(base_url=gateway.url, timeout=20, trust_env=False) as http:

        async def ask(**headers):
            return await http.post("/v1/chat/completions", json=ASK, headers=headers)

        assert (await ask()).status_code == 401
        answers = [await ask(authorization=f"Bearer {key}") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert (await http.get("/me", headers={"x-api-key": key})).status_code == 200
    async with asyncio.timeout(20):
        while len(await store.usage.page(since=begun_at)) < 2:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)


async def test_what_is_spent_at_one_host_is_spent_at_the_other(deployment, opened, postgres):
    address = stores.make_room(postgres)
    store = await opened(address)
    key = await charged_crowd.make_key(store, limits={"budget": 200})
    price = {"prompt_per_1k": 1000, "completion_per_1k": 1000}
    auth = {"enabled": True, "store": address, "default_price": price}
    few = {"default_completion_tokens": 4}
    await asyncio.to_thread(
        deployment.server,
        models=[MODEL],
        auth=auth,
        accounting=few,
        control={"interval": 1, "expect_nodes": ["node1"]},
    )
    deployment.agent(1)
    gateway = await asyncio.to_thread(deployment.gateway, auth=auth, accounting=few)
    await asyncio.to_thread(until, gateway.is_ready, "the gateway has somebody to send to")
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(timeout=20, trust_env=False, headers=headers) as http:

        async def spend(url):
            answer = await http.post(f"{url}/v1/chat/completions", json=ASK)
            return answer.status_code == 200

        assert await spend(gateway.url)
        while await spend(deployment.url):
            pass
        asked = 0
        async with asyncio.timeout(30):
            while await spend(gateway.url):
                asked += 1
                await asyncio.sleep(0.5)
    assert asked * 5 < 200 - 5, "it was not the gateway's own spending that ended it"
