"""A connection that an engine closes before anything could be sent on it is a failed dial."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.errors import Unreachable
from llmgw.gateway.descriptors import Descriptors
from llmgw.gateway.outgoing import Outgoing
from llmgw.gateway.pool import Address, Pool, Shared
from llmgw.gateway.reachability import Reachability
from tests.fakes.waiting import eventually


class LateLoop(asyncio.SelectorEventLoop):
    """Tells of a connection only when it has ended: another loop may, once in many thousand."""

    async def create_connection(self, make, *where, **how):
        transport, protocol = await super().create_connection(make, *where, **how)
        await eventually(transport.is_closing, within_s=20, look_s=0.01)
        return transport, protocol


class Closer(asyncio.Protocol):
    def connection_made(self, transport):
        transport.close()


async def dialled():
    server = await asyncio.get_running_loop().create_server(Closer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        now = asyncio.get_running_loop().time
        pool = Pool(
            Address.of(f"http://127.0.0.1:{port}"),
            dial_timeout_s=20.0,
            reachability=Reachability("e1"),
            shared=Shared(Outgoing(), Descriptors(now=now)),
        )
        with pytest.raises(Unreachable) as raised:
            await pool.dial()
        return raised.value


def test_connection_that_ended_before_it_was_told_of_is_a_failed_dial():
    with asyncio.Runner(loop_factory=LateLoop) as runner:
        refusal = runner.run(dialled())
    assert "closed the connection at once" in str(refusal)
