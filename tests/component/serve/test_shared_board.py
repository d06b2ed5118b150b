"""Two real workers before one engine: what each has under way, the other and the server see."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import pytest

from llmgw.config.carrying import RouterSettings
from llmgw.config.settings import GatewaySettings
from llmgw.domain.routes import Endpoint, ModelState, RoutedModel, RouteTable
from llmgw.kit.addresses import Address
from llmgw.serve.messages import WorkerSettings
from llmgw.serve.workers import Workers
from tests.fakes.waiting import eventually

_SETTINGS = WorkerSettings(
    router=RouterSettings(scrape_interval=0.1),
    gateway=GatewaySettings(drain_delay_s=0.0, shutdown_grace_s=1.0),
)
_BODY = b'{"model":"m","stream":true}'
_ASK = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_BODY),
    _BODY,
)
_METRICS = b"vllm:num_requests_running 3\nvllm:num_requests_waiting 0\n"


class Engine:
    """Streams one event and then holds the stream until ``let_go``; counts who asks for metrics."""

    def __init__(self):
        self.scrapes = 0
        self._free = asyncio.Event()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=256)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_):
        self.let_go()
        self._server.close()

    def let_go(self):
        self._free.set()

    async def _serve(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET"):
                    self.scrapes += 1
                    writer.write(
                        b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(_METRICS) + _METRICS
                    )
                    continue
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                    b"connection: close\r\n\r\ndata: {}\n\n"
                )
                await writer.drain()
                await self._free.wait()
                writer.write(b"data: [DONE]\n\n")
                break
        writer.close()


@pytest.fixture
async def engine():
    async with Engine() as engine:
        yield engine


@pytest.fixture
async def pool(tmp_path, engine):
    endpoint = Endpoint(endpoint_id="a", url=engine.url, models=("m",))
    pool = Workers(
        address=Address("127.0.0.1", 0),
        count=2,
        settings=_SETTINGS,
        run_dir=tmp_path,
        table=RouteTable(
            number=1,
            models={"m": RoutedModel(name="m", state=ModelState.READY)},
            canonical={"m": "m"},
            endpoints=(endpoint,),
        ),
    )
    pool.url = await pool.start()
    yield pool
    await pool.close(grace_s=1.0)


async def stream(url):
    """A stream that has begun."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(_ASK)
    await asyncio.wait_for(reader.readuntil(b"data: {}\n\n"), 20)
    return reader, writer


def inflight(pool):
    return pool.traffic().endpoints["a"].inflight


async def test_a_killed_worker_takes_its_counts_along_and_the_others_serve_on(engine, pool):
    streams = await asyncio.gather(*(stream(pool.url) for _ in range(50)))
    assert inflight(pool) == 50

    victim = pool.pids()[0]
    os.kill(victim, signal.SIGKILL)
    ends = [asyncio.ensure_future(reader.read()) for reader, _ in streams]
    await eventually(lambda: 0 < inflight(pool) < 50)
    left = inflight(pool)
    lost = sum(end.done() for end in ends)
    assert lost == 50 - left

    engine.let_go()
    answers = await asyncio.gather(*ends, return_exceptions=True)
    assert sum(isinstance(one, bytes) and b"[DONE]" in one for one in answers) == left
    await eventually(lambda: inflight(pool) == 0)
    await eventually(lambda: len(set(pool.pids()) - {victim}) == 2)
    for _, writer in streams:
        writer.close()


async def test_engines_are_asked_by_one_worker_and_by_another_when_it_dies(engine, pool):
    await eventually(lambda: engine.scrapes >= 3)
    began = engine.scrapes
    await asyncio.sleep(1.0)
    assert engine.scrapes - began <= 15, "two workers that both ask would ask twice as often"

    for pid in pool.pids():
        os.kill(pid, signal.SIGKILL)
        seen = engine.scrapes
        await eventually(lambda seen=seen: engine.scrapes >= seen + 3)
