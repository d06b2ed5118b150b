"""Limits as clients meet them: of all workers of a server together, and over any death."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import time

import httpx
import orjson
import pytest

from tests.fakes import charged_crowd
from tests.fakes.charged_crowd import PRICE, ChargedCrowd, heard
from tests.fakes.upstream import DONE, END, EVENTS, chunk, event

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

BUDGET = 2000
MOST_TOKENS = 3
ASK = orjson.dumps(
    {"model": "sim", "max_tokens": MOST_TOKENS, "messages": [{"role": "user", "content": "hi"}]}
)
RESERVED = len(ASK) // 4 + 3 * MOST_TOKENS
"""What one such request holds of a budget."""


class Site:
    """A server of two workers that asks for keys, and its engine."""

    def __init__(self, deployment, *, store, engine):
        self.deployment = deployment
        self.store = store
        self.engine = engine
        self.begun_at = time.time() - 1

    async def spent(self):
        """What all rows cost, once each request that the engine heard of has one."""
        async with asyncio.timeout(30):
            while True:
                rows = await self.store.usage.page(since=self.begun_at)
                if len(rows) == len(heard(self.engine)):
                    return sum(row.cost_micros for row in rows)
                await asyncio.sleep(0.1)

    async def ask(self, http, key):
        headers = {"authorization": f"Bearer {key}"}
        url = f"{self.deployment.url}/v1/chat/completions"
        return await http.post(url, content=ASK, headers=headers)


@pytest.fixture
async def site(deployment, opened, tmp_path):
    address = str(tmp_path / "state" / "store.db")
    store = await opened(address)
    engine = await charged_crowd.engine()
    await asyncio.to_thread(
        deployment.server,
        endpoints=[{"id": "a", "url": engine.url, "models": ["sim"]}],
        auth={"enabled": True, "store": address, "pricing": {"sim": PRICE}, "cache_ttl": 1},
        accounting={"default_completion_tokens": MOST_TOKENS},
        gateway={"workers": 2, "drain_delay_s": 0, "shutdown_grace_s": 5},
    )
    yield Site(deployment, store=store, engine=engine)
    await engine.close()


@pytest.fixture
async def http():
    limits = httpx.Limits(max_connections=250)
    async with httpx.AsyncClient(timeout=30, limits=limits, trust_env=False) as http:
        yield http


async def test_of_two_hundred_at_once_a_budget_for_ten_lets_ten_in(site, http):
    budget = 10 * RESERVED
    key = await charged_crowd.make_key(site.store, limits={"budget": budget})
    may_end = asyncio.Event()
    site.engine.always(EVENTS, chunk(event("a")), may_end, chunk(DONE), END)
    refused = []

    async def one():
        answer = await site.ask(http, key)
        if answer.status_code != 200:
            refused.append(answer.json()["error"]["code"])

    asking = [asyncio.create_task(one()) for _ in range(200)]
    async with asyncio.timeout(30):
        while len(refused) + len(heard(site.engine)) < 200:  # noqa: ASYNC110 - two counts
            await asyncio.sleep(0.02)
    assert len(heard(site.engine)) == math.ceil(budget / RESERVED)
    assert set(refused) == {"budget_exhausted"}
    may_end.set()
    await asyncio.gather(*asking)


async def test_places_of_a_worker_that_is_killed_are_free_again(site, http):
    key = await charged_crowd.make_key(site.store, limits={"concurrency": 4})
    site.engine.always(EVENTS, chunk(event("a")), asyncio.Event())
    streams = [asyncio.create_task(site.ask(http, key)) for _ in range(4)]
    async with asyncio.timeout(30):
        while len(heard(site.engine)) < 4:  # noqa: ASYNC110 - a count
            await asyncio.sleep(0.02)
    assert (await site.ask(http, key)).json()["error"]["code"] == "concurrent_requests"
    for victim in site.deployment.workers():
        os.kill(victim, signal.SIGKILL)
    await asyncio.gather(*streams, return_exceptions=True)
    site.engine.always(EVENTS, chunk(event("a")), chunk(DONE), END)
    async with asyncio.timeout(30):
        while not await _is_served(site, http, key):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)


async def _is_served(site, http, key):
    try:
        return (await site.ask(http, key)).status_code == 200
    except httpx.TransportError:
        return False


async def test_budget_is_spent_once_whoever_dies_meanwhile(site, http):
    key = await charged_crowd.make_key(site.store, limits={"budget": BUDGET})
    server = site.deployment.parts["server"]
    async with ChargedCrowd(site.deployment.url, key=key) as crowd:
        await crowd.more(20)
        os.kill(min(site.deployment.workers()), signal.SIGKILL)
        await crowd.more(20)
        server.kill()
        await crowd.more(10)
        server.start()
        await asyncio.to_thread(server.wait_said, r"^clients ")
        async with asyncio.timeout(30):
            while len(_refused_for(crowd, "budget_exhausted")) < 24:  # noqa: ASYNC110 - a count
                await asyncio.sleep(0.05)
    # A worker that began just before the server died has nobody to ask whose a key is.
    unasked = _refused_for(crowd, "503", "auth_unavailable")
    assert set(crowd.refused) == _refused_for(crowd, "budget_exhausted") | unasked
    spent = await site.spent()
    assert BUDGET <= spent < BUDGET + 2 * RESERVED
    server.kill()
    for worker in site.deployment.workers():
        os.kill(worker, signal.SIGKILL)
    server.start()
    await asyncio.to_thread(server.wait_said, r"^clients ")
    assert (await site.ask(http, key)).json()["error"]["code"] == "budget_exhausted"


def _refused_for(crowd, *words):
    return {name for name, told in crowd.refused.items() if all(word in told for word in words)}


async def test_revoked_key_stops_within_its_time(site, http):
    key = await charged_crowd.make_key(site.store)
    assert (await site.ask(http, key)).status_code == 200
    [made] = await site.store.keys.all()
    await site.store.keys.revoke(made.key_id, at=time.time())
    async with asyncio.timeout(20):
        while (  # noqa: ASYNC110 - another process
            answer := await site.ask(http, key)
        ).status_code == 200:
            await asyncio.sleep(0.1)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
