"""What dies, and what clients see of it: two nodes, three replicas, fifty clients that stream."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Self

import httpx
import pytest

from tests.fakes.deployment import until

pytestmark = pytest.mark.slow

CLIENTS = 50
MODEL = {
    "name": "sim",
    "source": "sim",
    "scaling": {"min": 3},
    "profiles": [
        {
            "name": "cpu",
            "engine": "sim",
            "args": ["--ttft-ms", "100", "--tpot-ms", "20", "--tokens", "40"],
        }
    ],
}


@dataclass
class Seen:
    """What all clients saw."""

    completed: int = 0
    failed: list[str] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)
    """Pids of the engines whose streams broke after they had begun."""
    last_completed_at: float = 0.0


class Crowd:
    """Clients that each ask for one stream after the other until told to stop."""

    def __init__(self, url: str, *, clients: int = CLIENTS) -> None:
        self._url = url
        self._clients = clients
        self._is_over = False
        self.seen = Seen()
        self.streaming: Counter[int] = Counter()
        """Streams that have begun and not ended, by the pid of their engine."""

    async def __aenter__(self) -> Self:
        limits = httpx.Limits(
            max_connections=self._clients, max_keepalive_connections=self._clients
        )
        self._client = httpx.AsyncClient(timeout=30, limits=limits, trust_env=False)
        self._tasks = [asyncio.create_task(self._ask_on()) for _ in range(self._clients)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        try:
            async with asyncio.timeout(30):
                await asyncio.gather(*self._tasks)
        finally:
            await self._client.aclose()

    async def more(self, count: int, *, within_s: float = 30.0) -> None:
        """Return once so many more streams were completed."""
        goal = self.seen.completed + count
        async with asyncio.timeout(within_s):
            while self.seen.completed < goal:  # noqa: ASYNC110 - a count of many
                await asyncio.sleep(0.02)

    async def streams_on(self, pid: int) -> None:
        """Return once an engine has streams under way."""
        async with asyncio.timeout(30):
            while self.streaming[pid] < 3:  # noqa: ASYNC110 - a count of many
                await asyncio.sleep(0.005)

    async def _ask_on(self) -> None:
        while not self._is_over:
            await self._ask()

    async def _ask(self) -> None:
        body = {"model": "sim", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        pid, is_done = 0, False
        try:
            url = f"{self._url}/v1/chat/completions"
            async with self._client.stream("POST", url, json=body) as answer:
                if answer.status_code != 200:
                    text = (await answer.aread()).decode()
                    self.seen.failed.append(f"{answer.status_code} {text}")
                    await asyncio.sleep(0.1)
                    return
                async for line in answer.aiter_lines():
                    if line == "data: [DONE]":
                        is_done = True
                    elif not pid and line.startswith("data: "):
                        pid = int(json.loads(line[6:])["system_fingerprint"].split("-")[1])
                        self.streaming[pid] += 1
        except httpx.TransportError as error:
            if not pid:
                self.seen.failed.append(repr(error))
                await asyncio.sleep(0.1)
                return
        self.streaming[pid] -= 1
        if is_done:
            self.seen.completed += 1
            self.seen.last_completed_at = time.monotonic()
        else:
            self.seen.broken.append(pid)


@pytest.fixture
def fleet(deployment):
    deployment.server(models=[MODEL], agent_tls="insecure")
    deployment.agent(1)
    deployment.agent(2)
    deployment.wait_ready("sim", 3)
    return deployment


async def test_a_killed_engine_costs_only_its_own_streams_and_comes_back(fleet):
    before = fleet.engines()
    assert len(before) == 3
    assert len({address.split(":")[0] for address in before}) == 2
    victim = min(before.values())
    async with Crowd(fleet.url) as crowd:
        await crowd.more(CLIENTS)
        await crowd.streams_on(victim)
        os.kill(victim, signal.SIGKILL)
        await crowd.more(2 * CLIENTS)
        await asyncio.to_thread(fleet.wait_ready, "sim", 3, within_s=20)
        await crowd.more(CLIENTS)
    assert crowd.seen.failed == []
    assert set(crowd.seen.broken) == {victim}
    after = set(fleet.engines().values())
    assert set(before.values()) - {victim} < after
    assert len(after) == 3


async def test_a_killed_agent_costs_nothing_and_the_next_one_adopts_its_engines(fleet):
    before = fleet.engines()
    replicas = {r["replica_id"] for r in fleet.ready("sim")}
    agent = fleet.parts["node1"]
    async with Crowd(fleet.url) as crowd:
        await crowd.more(CLIENTS)
        agent.kill()
        await crowd.more(2 * CLIENTS)
        agent.start()
        await asyncio.to_thread(until, lambda: "shard_adopted" in agent.output, "it adopts")
        await asyncio.to_thread(fleet.wait_ready, "sim", 3)
        await crowd.more(CLIENTS)
    assert (crowd.seen.failed, crowd.seen.broken) == ([], [])
    assert fleet.engines() == before
    assert {r["replica_id"] for r in fleet.ready("sim")} == replicas


async def test_a_killed_server_costs_nothing_and_the_next_one_adopts_workers_and_engines(fleet):
    engines, workers = fleet.engines(), fleet.workers()
    replicas = {r["replica_id"] for r in fleet.ready("sim")}
    server = fleet.parts["server"]
    async with Crowd(fleet.url) as crowd:
        await crowd.more(CLIENTS)
        server.kill()
        await crowd.more(2 * CLIENTS)
        server.start()
        restarted_at = time.monotonic()
        await asyncio.to_thread(fleet.wait_ready, "sim", 3, within_s=10)
        await crowd.more(CLIENTS)
        assert crowd.seen.last_completed_at > restarted_at
    assert (crowd.seen.failed, crowd.seen.broken) == ([], [])
    assert fleet.engines() == engines
    assert fleet.workers() == workers
    assert {r["replica_id"] for r in fleet.ready("sim")} == replicas


async def test_requests_succeed_at_once_after_server_and_workers_were_killed(fleet):
    engines = fleet.engines()
    fleet.parts["server"].kill()
    for pid in fleet.workers():
        os.kill(pid, signal.SIGKILL)
    for node in ("node1", "node2"):
        fleet.parts[node].kill()
    fleet.parts["server"].start()
    began = time.monotonic()
    body = {"model": "sim", "messages": [{"role": "user", "content": "hi"}]}
    url = f"{fleet.url}/v1/chat/completions"
    answer = until(lambda: httpx.post(url, json=body, timeout=10), "an answer", within_s=10)
    assert answer.status_code == 200
    assert time.monotonic() - began < 10
    for node in ("node1", "node2"):
        fleet.parts[node].start()
    fleet.wait_ready("sim", 3)
    assert fleet.engines() == engines


def test_a_stop_of_server_and_agents_leaves_engines_running(fleet):
    engines = fleet.engines()
    for part in ("node1", "node2", "server"):
        assert fleet.parts[part].stop() == 0
    assert fleet.engines() == engines
    assert fleet.workers() == set()
