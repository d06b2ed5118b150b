"""An engine that refuses a request before it has read it is heard; its connection is not reused."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.gateway_stage import ASK
from tests.fakes.upstream import END, chunk, head, whole

HUGE = {**ASK, "filler": "x" * 8_000_000}
"""More than two kernels hold for one connection."""


class Refuser(asyncio.Protocol):
    """Answers as soon as it sees the head of a request, and reads nothing more of a huge one."""

    def __init__(self, engine):
        self._engine = engine
        self._received = b""

    def connection_made(self, transport):
        self._transport = transport
        self._engine.open.append(transport)

    def data_received(self, data):
        self._received += data
        if b"\r\n\r\n" not in self._received:
            return
        length = self._received.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        self._received = b""
        if int(length) > 1_000_000:
            self._transport.pause_reading()
            self._transport.write(self._engine.answer)
            if self._engine.closes:
                self._transport.close()
        else:
            self._transport.write(whole(b"fine"))


class RefusingEngine:
    def __init__(self, answer, *, closes):
        self.answer = answer
        self.closes = closes
        self.open = []

    async def listen(self):
        server = await asyncio.get_running_loop().create_server(
            lambda: Refuser(self), "127.0.0.1", 0
        )
        return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("closes", [False, True], ids=["stays open", "closes"])
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(whole(b"too large", status=413), id="announced"),
        pytest.param(
            head(413, "Transfer-Encoding: chunked") + chunk(b"too large") + END, id="chunks"
        ),
    ],
)
async def test_refusal_before_the_end_of_the_request_is_passed_on(stage, answer, closes):
    engine = RefusingEngine(answer, closes=closes)
    server, url = await engine.listen()
    async with server:
        stage.list_endpoint("e1", url)
        refused = await stage.ask(HUGE)
        assert (refused.status, refused.body) == (413, b"too large")
        assert stage.endpoint_stats().idle_connections == 0
        answer = await stage.ask()
        assert (answer.status, answer.body) == (200, b"fine")
        assert len(engine.open) == 2
        assert not stage.endpoint_stats().is_breaker_open
        for transport in engine.open:
            transport.abort()
        await stage.until(lambda: stage.endpoint_stats().idle_connections == 0)
