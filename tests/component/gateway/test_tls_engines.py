"""Engines behind TLS: only with a certificate that is good for their name."""

from __future__ import annotations

import asyncio
import ssl
import time

import pytest

from llmgw.rpc import authority
from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import post
from tests.fakes.upstream import EVENTS, Do, chunk, event, stream


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A CA that this process trusts, and what it signed for two names."""
    root = tmp_path_factory.mktemp("certificates")
    authority.init_ca(root / "ca", now=time.time())
    issued = {
        name: authority.issue_server(
            root / "ca", out=root / name, name=name, hosts=(host,), now=time.time()
        )
        for name, host in (("here", "127.0.0.1"), ("elsewhere", "127.0.0.2"))
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(issued["here"].ca))
        yield issued


@pytest.fixture
async def tls_engine(stage, certificates):
    """Starts an engine that shows one of the certificates."""

    async def start(name="here"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates[name].cert, certificates[name].key)
        stage.tune(dispatch={"max_attempts": 1})
        engine = await stage.engine(tls=context)
        stage.change_endpoint("e1", url=engine.url.replace("http:", "https:"))
        return engine

    return start


async def test_engine_with_a_good_certificate_is_used_and_its_connection_kept(stage, tls_engine):
    engine = await tls_engine()
    for _ in range(3):
        assert (await stage.ask()).status == 200
    engine.always(stream("a"))
    assert (await stage.ask()).is_complete
    assert engine.connections == 1


async def test_engine_with_another_s_certificate_is_not_used(stage, tls_engine, caplog):
    engine = await tls_engine("elsewhere")
    assert (await stage.ask()).code == "upstream_unreachable"
    assert engine.requests == []
    [said] = [r.keys for r in caplog.records if r.message == "endpoint_unreachable"]
    assert said["endpoint"] == "e1"
    assert "certificate verify failed" in said["reason"]


async def test_client_that_leaves_ends_an_answer_over_tls_at_once(stage, tls_engine):
    engine = await tls_engine()
    engine.always(EVENTS + chunk(event("a")), Do.HOLD)
    client = await stage.send(post(ASK))
    await client.got(event("a"))
    left_at = asyncio.get_running_loop().time()
    client.leave()
    assert await engine.aborted() - left_at < 1.0
    await stage.settled()
    assert stage.states == {"cancelled": 1}


@pytest.mark.parametrize("what", [Do.CLOSE, Do.RESET])
async def test_stream_that_breaks_off_over_tls_is_told(stage, tls_engine, what):
    engine = await tls_engine()
    engine.always(EVENTS + chunk(event("a")), what)
    client = await stage.send(post(ASK))
    await client.end()
    assert b"stream_truncated" in client.raw
