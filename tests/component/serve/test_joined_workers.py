"""Two real workers and what joins them: breakers, wishes to load, receipts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time

import pytest

from llmgw.config.carrying import BreakerSettings, RouterSettings
from llmgw.config.settings import GatewaySettings
from llmgw.domain.routes import Endpoint, ModelState, RoutedModel, RouteTable
from llmgw.gateway import board_layout
from llmgw.gateway.board import LoadBoard
from llmgw.kit.addresses import Address
from llmgw.serve import siblings
from llmgw.serve.messages import WorkerSettings
from llmgw.serve.workers import Workers

_OPEN_S = 2.0
_SETTINGS = WorkerSettings(
    router=RouterSettings(scrape_interval=0.0, breaker=BreakerSettings(open_s=_OPEN_S)),
    gateway=GatewaySettings(drain_delay_s=0.0, shutdown_grace_s=1.0),
)
_WHOLE = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class Engine:
    """Answers every request at once, with ``status``; counts them."""

    def __init__(self):
        self.status = 200
        self.asked = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                self.asked += 1
                writer.write(_WHOLE % self.status)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()


class Client:
    """One connection, which one worker has accepted."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    @classmethod
    async def of(cls, url):
        return cls(*await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2])))

    async def ask(self, model="m", *, request_id="r"):
        body = json.dumps({"model": model}).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-request-id: {request_id}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        return await self._answer(head.encode() + body)

    async def get(self, path):
        return await self._answer(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())

    async def _answer(self, request):
        self._writer.write(request)
        async with asyncio.timeout(20):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return int(head.split()[1]), json.loads(await self._reader.readexactly(length))

    async def close(self):
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


def table(*engines, number=1, **model):
    entry = RoutedModel(name="m", **{"state": ModelState.READY, **model})
    return RouteTable(
        number=number,
        models={"m": entry},
        canonical={"m": "m"},
        endpoints=tuple(
            Endpoint(endpoint_id=f"e{n}", url=one.url, models=("m",))
            for n, one in enumerate(engines)
        ),
    )


@pytest.fixture
async def engine():
    async with Engine() as engine:
        yield engine


@pytest.fixture
async def pool(tmp_path, engine):
    pool = Workers(
        address=Address("127.0.0.1", 0),
        count=2,
        settings=_SETTINGS,
        run_dir=tmp_path,
        table=table(engine),
    )
    pool.run_dir, pool.clients = tmp_path, []
    pool.url = await pool.start()
    yield pool
    for client in pool.clients:
        await client.close()
    await pool.close(grace_s=1.0)


async def until(truth, *, within_s=20.0):
    async with asyncio.timeout(within_s):
        while not (await outcome if asyncio.iscoroutine(outcome := truth()) else outcome):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)


async def connected(pool):
    client = await Client.of(pool.url)
    pool.clients.append(client)
    return client


async def clients_of_both(pool):
    """A connection to each worker by its pid, found by what each of them alone has counted."""
    found = {}
    async with asyncio.timeout(20):
        while len(found) < 2:
            client = await connected(pool)
            assert (await client.ask(request_id=f"r{len(pool.clients)}"))[0] == 200
            await pool._ask_figures()
            for worker in pool._living():
                is_used = any(s.name == "llmgw_requests_total" and s.value for s in worker.figures)
                if is_used and worker.pid not in found:
                    found[worker.pid] = client
    return found


async def open_breakers(pool):
    """How many workers find the endpoint's breaker open."""
    await pool._ask_figures()
    return sum(
        sample.value
        for worker in pool._living()
        for sample in worker.figures
        if sample.name == "llmgw_endpoint_breaker_open"
    )


async def test_failures_that_one_worker_saw_open_the_breaker_of_all_and_one_success_closes_it(
    pool, engine
):
    [one, other] = (await clients_of_both(pool)).values()
    engine.status = 500
    before = engine.asked
    assert (await one.ask())[0] == 500, "the last of five attempts answers for itself"
    assert engine.asked - before == 5

    async def are_open():
        return await open_breakers(pool) == 2

    async def are_closed():
        return not await open_breakers(pool)

    await until(are_open)
    engine.status = 200
    await until(are_closed)  # half open: a probe may pass
    assert (await other.ask())[0] == 200
    assert (await one.ask())[0] == 200


async def test_wishes_of_all_workers_are_one_and_end_with_their_requests_or_their_worker(pool):
    clients = await clients_of_both(pool)
    news = []
    part = pool.subscribe(lambda: news.append(pool.traffic().asked))
    pool.publish(table(number=2, state=ModelState.ON_DEMAND, is_on_demand=True))
    await until(lambda: pool.traffic().has_latest_table)
    asking = {
        pid: asyncio.create_task(client.ask(request_id=f"held-{pid}"))
        for pid, client in clients.items()
    }
    await until(lambda: pool.traffic().asked == {"m"})
    assert frozenset({"m"}) in news

    victim, survivor = asking
    os.kill(victim, signal.SIGKILL)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await asking[victim]
    assert pool.traffic().asked == {"m"}, "the other one waits"
    async with Engine() as engine:
        pool.publish(table(engine, number=3))
        assert (await asking[survivor])[0] == 200
        await until(lambda: pool.traffic().asked == frozenset())
    part()


async def test_a_receipt_is_found_whichever_worker_served(pool):
    clients = await clients_of_both(pool)
    [one, other] = clients.values()
    await one.ask(request_id="mine")
    for client in (one, other):
        status, told = await client.get("/v1/requests/mine")
        assert (status, told["id"], told["model"]) == (200, "mine", "m")


async def test_a_request_that_nobody_served_is_not_known_here(pool):
    [one, _] = (await clients_of_both(pool)).values()
    status, told = await one.get("/v1/requests/nobodys")
    assert (status, told["error"]["code"]) == (404, "not_found")
    assert told["error"]["message"].startswith("No request of this id is known here")
    assert "did not answer" not in told["error"]["message"]


async def test_a_worker_that_stands_still_is_waited_for_no_longer_than_a_second(pool):
    clients = await clients_of_both(pool)
    [asked, frozen] = clients
    os.kill(frozen, signal.SIGSTOP)
    try:
        begun_at = time.monotonic()
        status, told = await clients[asked].get("/v1/requests/nobodys")
        took_s = time.monotonic() - begun_at
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert (status, told["error"]["code"]) == (404, "not_found")
    assert "did not answer" in told["error"]["message"], "it does not say that it never was"
    assert 0.9 <= took_s < 4.0


async def test_a_worker_that_was_killed_knows_nothing_and_leaves_no_socket(pool):
    clients = await clients_of_both(pool)
    [victim, left] = clients
    os.kill(victim, signal.SIGKILL)
    await until(lambda: not siblings.socket_path(pool.run_dir, pid=victim).exists())
    status, told = await clients[left].get("/v1/requests/nobodys")
    assert (status, "did not answer" in told["error"]["message"]) == (404, False)


async def test_a_client_that_leaves_while_workers_are_asked_leaves_nothing_behind(pool):
    clients = await clients_of_both(pool)
    [asked, frozen] = clients
    os.kill(frozen, signal.SIGSTOP)
    try:
        client = clients[asked]
        client._writer.write(b"GET /v1/requests/nobodys HTTP/1.1\r\nhost: x\r\n\r\n")
        await client._writer.drain()
        await asyncio.sleep(0.1)
        await client.close()
        await asyncio.sleep(0.2)
    finally:
        os.kill(frozen, signal.SIGCONT)
    status, _ = await clients[frozen].ask()
    assert status == 200
    again = await connected(pool)
    assert (await again.ask())[0] == 200


async def test_traffic_is_told_as_complete_only_once_all_workers_have_the_table(pool, engine):
    await until(lambda: pool.traffic().has_latest_table)
    [frozen, _] = pool.pids()
    os.kill(frozen, signal.SIGSTOP)
    try:
        pool.publish(table(engine, number=2))
        await asyncio.sleep(0.3)
        assert not pool.traffic().has_latest_table, "one may still send by the old table"
    finally:
        os.kill(frozen, signal.SIGCONT)
    await until(lambda: pool.traffic().has_latest_table)


async def test_what_an_agent_saw_reaches_the_worker_that_judges(pool, engine):
    worked_at = time.monotonic()
    pool.worked("e0", worked_at=worked_at, looked_at=worked_at + 1)
    pool.worked("unknown", worked_at=1.0, looked_at=1.0)
    path = board_layout.path(pool.run_dir)
    board = LoadBoard.attached(path, row=board_layout.ROWS - 1, now=time.monotonic)
    seat = board.seat("e0", engine.url)
    assert seat.worked_at == pytest.approx(worked_at, abs=0.01)
    assert seat.looked_at == pytest.approx(worked_at + 1, abs=0.01)
