"""Whatever is killed or stands still, each request that reached an engine is accounted once."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter

import httpx
import psycopg
import pytest

from llmgw.domain.usage_reports import DAY_S, Span
from tests.fakes import charged_crowd, stores
from tests.fakes.charged_crowd import COST, PRICE, ChargedCrowd, heard
from tests.fakes.deployment import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

CACHED_S = 1.0
BUDGET = 10_000_000
PAUSE_S = float(os.environ.get("PAUSE_SECONDS", "6"))
"""How long the database stands still; 120 is what is promised."""


class Site:
    """A server with keys, its engine, and the store it writes to."""

    def __init__(self, deployment, *, store, engine, key, begun_at):
        self.deployment = deployment
        self.store = store
        self.engine = engine
        self.key = key
        self.begun_at = begun_at

    def crowd(self):
        return ChargedCrowd(self.deployment.url, key=self.key)

    async def rows(self):
        rows, last = [], None
        while page := await self.store.usage.page(since=self.begun_at, after=last):
            rows, last = [*rows, *page], page[-1]
        return rows

    async def settled(self):
        """Every row, once there are as many as requests that reached the engine."""
        rows = []
        deadline = time.monotonic() + 30
        while len(rows) < len(heard(self.engine)):
            assert time.monotonic() < deadline, f"{len(rows)} of {len(heard(self.engine))}"
            await asyncio.sleep(0.2)
            rows = await self.rows()
        return rows

    async def check(self, crowd, *, may_lose):
        """One row for each request that the engine heard of, and all sums are equal."""
        rows = await self.settled()
        names = Counter(one.request_id for one in rows)
        assert [name for name, count in names.items() if count > 1] == []
        assert set(heard(self.engine)) - set(names) == set()
        by_name = {one.request_id: one for one in rows}
        assert {by_name[name].outcome for name in crowd.whole} == {"finished"}
        assert {by_name[name].cost_micros for name in crowd.whole} == {COST}
        ended = Counter(one.outcome for one in rows)
        assert (ended["lost"] > 0) == may_lose
        for one in rows:
            assert one.is_estimated == (one.outcome != "finished")
        await self.check_sums(rows)
        return by_name

    async def check_sums(self, rows):
        micros = sum(one.cost_micros for one in rows)
        (total,) = await self.store.usage_sums.report("org", Span(self.begun_at // 3600 * 3600))
        assert (total.amounts.requests, total.amounts.cost_micros) == (len(rows), micros)
        for day in {one.at // DAY_S * DAY_S for one in rows}:
            assert (await self.store.usage_sums.check_day(day)).agrees


@pytest.fixture
async def site(deployment, opened, request, tmp_path):
    """On SQLite, or on PostgreSQL where a test asks for that."""
    address = str(tmp_path / "state" / "store.db")
    if "postgres" in request.fixturenames:
        address = stores.make_room(request.getfixturevalue("postgres"))
    store = await opened(address)
    key = await charged_crowd.make_key(store, limits={"budget": BUDGET, "period": "month"})
    engine = await charged_crowd.engine()
    begun_at = time.time() - 1
    try:
        await asyncio.to_thread(
            deployment.server,
            endpoints=[{"id": "a", "url": engine.url, "models": ["sim"]}],
            auth={
                "enabled": True,
                "store": address,
                "pricing": {"sim": PRICE},
                "store_timeout_s": 2,
                "cache_ttl": CACHED_S,
            },
            gateway={"workers": 2, "drain_delay_s": 0, "shutdown_grace_s": 5},
        )
        yield Site(deployment, store=store, engine=engine, key=key, begun_at=begun_at)
    finally:
        await engine.close()


async def test_a_worker_that_is_killed_loses_no_request_of_the_account(site):
    async with site.crowd() as crowd:
        await crowd.more(60)
        for victim in site.deployment.workers():
            os.kill(victim, signal.SIGKILL)
            await crowd.more(60)
    by_name = await site.check(crowd, may_lose=True)
    lost = {name for name, one in by_name.items() if one.outcome == "lost"}
    assert lost <= crowd.broken
    assert crowd.refused == {}
    await check_what_its_owner_is_told(site, by_name.values())
    figures = await asyncio.to_thread(site.deployment.figures)
    assert figures["llmgw_usage_rows_total"] == len(by_name)
    assert figures["llmgw_usage_lost_total"] == len(lost)
    assert figures["llmgw_usage_dropped_total"] == figures["llmgw_usage_running"] == 0
    await check_nothing_is_left(site)


async def check_what_its_owner_is_told(site, rows):
    """At the door of the clients, who show their key."""
    async with httpx.AsyncClient(base_url=site.deployment.url, trust_env=False) as http:
        http.headers["authorization"] = f"Bearer {site.key}"
        (used,) = (await http.get("/v1/usage")).raise_for_status().json()["data"]
        me = (await http.get("/me")).raise_for_status().json()
        assert (await http.get("/v1/usage", params={"by": "planet"})).status_code == 400
        http.headers["authorization"] = "Bearer sk-nobodys"
        assert (await http.get("/v1/usage")).status_code == 401
    assert (used["model"], used["requests"]) == ("sim", len(rows))
    assert used["cost_micros"] == sum(one.cost_micros for one in rows)
    (limit,) = me["limits"]
    assert limit["spent_micros"] == used["cost_micros"]
    assert me["budget_left_micros"] == BUDGET - used["cost_micros"]


async def check_nothing_is_left(site):
    """Once the server has ended in order, all is in the store and nowhere else."""
    assert await asyncio.to_thread(site.deployment.parts["server"].stop) == 0
    assert list((site.deployment.root / "run" / "usage").iterdir()) == []
    assert list((site.deployment.root / "state" / "usage").iterdir()) == []
    assert len(await site.rows()) == len(heard(site.engine))


async def test_a_server_that_is_killed_loses_no_request_of_the_account(site):
    server = site.deployment.parts["server"]
    async with site.crowd() as crowd:
        await crowd.more(60)
        server.kill()
        await crowd.more(120)
        server.start()
        await asyncio.to_thread(server.wait_said, r"^clients ")
        await crowd.more(60)
    await site.check(crowd, may_lose=False)
    assert crowd.broken == set()
    assert crowd.refused == {}


async def test_server_and_workers_that_are_killed_together_lose_no_request(site):
    server = site.deployment.parts["server"]
    async with site.crowd() as crowd:
        await crowd.more(60)
        server.kill()
        for victim in site.deployment.workers():
            os.kill(victim, signal.SIGKILL)
        server.start()
        await asyncio.to_thread(server.wait_said, r"^clients ")
        await crowd.more(60)
    by_name = await site.check(crowd, may_lose=True)
    await check_budgets_equal_the_account(site, by_name.values())


async def check_budgets_equal_the_account(site, rows):
    """With a micro-unit more than the account tells, one request is let in and the next is not."""
    budget = sum(one.cost_micros for one in rows) + 1
    await charged_crowd.limit_key(site.store, budget=budget)
    ask = {"model": "sim", "stream": True, "max_tokens": 1, "messages": []}
    headers = {"authorization": f"Bearer {site.key}"}
    async with httpx.AsyncClient(base_url=site.deployment.url, trust_env=False) as http:
        http.headers.update(headers)
        await asyncio.sleep(1.5 * CACHED_S)
        for expected in (200, 429):
            answer = await http.post("/v1/chat/completions", json=ask)
            assert answer.status_code == expected, answer.text
    assert answer.json()["error"]["code"] == "budget_exhausted"


async def test_a_database_that_stands_still_refuses_nobody_and_gets_all_of_it(site, postgres):
    async with site.crowd() as crowd:
        await crowd.more(60)
        postgres.signal(signal.SIGSTOP)
        try:
            begun = time.monotonic()
            while time.monotonic() - begun < PAUSE_S:
                await crowd.more(60)
        finally:
            postgres.signal(signal.SIGCONT)
        await crowd.more(60)
    await site.check(crowd, may_lose=False)
    assert crowd.broken == set()
    assert crowd.refused == {}


async def test_a_database_that_is_killed_gets_each_request_once(site, postgres):
    """A killed session makes PostgreSQL end all of them and recover, as after a crash."""
    async with site.crowd() as crowd:
        for _ in range(2):
            await crowd.more(40)
            os.kill(a_session_of(postgres), signal.SIGKILL)
        await crowd.more(60)
    await site.check(crowd, may_lose=False)
    assert crowd.broken == set()
    assert crowd.refused == {}


def a_session_of(postgres):
    """The process of one that this server has, once it has one."""
    query = "SELECT min(pid) FROM pg_stat_activity WHERE application_name = 'llmgw'"

    def found():
        with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
            return connection.execute(query).fetchone()[0]

    return until(found, "a session of llmgw")
