"""What the gateway costs against nginx, asked in turns: the cheap guard of the large benchmark.

Processor time of the proxying process alone is compared, so that a busy machine changes little.
The bounds are three times what is usual; `pytest -s` shows the ratios.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from tests.fakes.deployment import until
from tests.fakes.engines import free_port

NGINX = shutil.which("nginx")
ROUNDS = 3
CLIENTS = 16
REQUESTS = 3000
STREAMS = 50
TOKENS = 60
TOKEN_EVERY_S = 0.01
MOST_FOR_A_REQUEST = 8.0
MOST_FOR_A_TOKEN = 4.0

BODY = b'{"model":"m","messages":[{"role":"user","content":"%b"}]}' % (b"why? " * 180)
STREAM_BODY = b'{"stream":true,"stream_options":{"include_usage":true},' + BODY[1:]
TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"token"},"finish_reason":null}]}\n\n'
LAST = b"data: [DONE]\n\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
BEGIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
NOTHING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

CONFIG = """
pid {folder}/pid; worker_processes 1; events {{ worker_connections 2048; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 256; }}
  server {{
    listen 127.0.0.1:{port}; client_body_buffer_size 64k; keepalive_requests 1000000;
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed; .ci/run installs it")


def chunk(payload):
    return b"%x\r\n%b\r\n" % (len(payload), payload)


class Engine(asyncio.Protocol):
    """Answers at once, or with a token every few milliseconds."""

    def __init__(self, connected):
        self._connected = connected
        self._received = b""

    def connection_made(self, transport):
        self._transport = transport
        self._connected.add(transport)

    def connection_lost(self, exc):
        self._connected.discard(self._transport)

    def data_received(self, data):
        self._received += data
        if self._received.startswith(b"GET"):
            self._received = b""
            self._transport.write(NOTHING)
        elif self._received.endswith(b"}]}"):
            is_stream = b'"stream":true' in self._received
            self._received = b""
            if is_stream:
                self._transport.write(BEGIN)
                self._send_token(TOKENS)
            else:
                self._transport.write(ANSWER)

    def _send_token(self, left):
        if self._transport.is_closing():
            return
        if not left:
            self._transport.write(chunk(LAST) + b"0\r\n\r\n")
            return
        self._transport.write(chunk(TOKEN))
        asyncio.get_running_loop().call_later(TOKEN_EVERY_S, self._send_token, left - 1)


class Client(asyncio.Protocol):
    """Asks again as soon as it has its answer."""

    def __init__(self, body, end, count):
        self._request = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        self._end = end
        self._left = count
        self._tail = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data):
        self._tail = (self._tail + data)[-256:]
        if not self._tail.endswith(self._end):
            return
        self._tail = b""
        self._left -= 1
        if self._left:
            self._transport.write(self._request)
        else:
            self._transport.close()
            self.done.set_result(None)

    def connection_lost(self, exc):
        if not self.done.done():
            self.done.set_exception(ConnectionError("the answer broke off"))


async def load(port, *, clients, body, end, count):
    """So many clients that ask ``count`` times each, all at once."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(30):
        made = [
            (await loop.create_connection(lambda: Client(body, end, count), "127.0.0.1", port))[1]
            for _ in range(clients)
        ]
        await asyncio.gather(*(one.done for one in made))


def cpu_s(pid):
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def engine_port():
    return free_port()


@pytest.fixture
def proxies(deployment, engine_port, tmp_path):
    """Port and process of the gateway's worker and of nginx, each before the same engine."""
    deployment.server(
        endpoints=[{"id": "e", "url": f"http://127.0.0.1:{engine_port}", "models": ["m"]}],
    )
    (worker,) = deployment.workers()
    port = free_port()
    config = tmp_path / "nginx.conf"
    config.write_text(CONFIG.format(folder=tmp_path, engine=engine_port, port=port))
    words = [NGINX, "-p", tmp_path, "-e", tmp_path / "errors", "-c", config]
    process = subprocess.Popen([*words, "-g", "daemon off; master_process off;"])
    until((tmp_path / "pid").exists, "nginx runs")
    yield {
        "nginx": (port, process.pid),
        "llmgw": (int(deployment.url.rpartition(":")[2]), worker),
    }
    process.terminate()
    process.wait(timeout=10)


def ratio(proxies, engine_port, *, warm, what):
    """Processor time of ours over that of nginx, summed over rounds in turns."""
    used = dict.fromkeys(proxies, 0.0)

    async def measure():
        loop, connected = asyncio.get_running_loop(), set()
        async with await loop.create_server(
            lambda: Engine(connected), "127.0.0.1", engine_port, backlog=1024
        ) as server:
            for port, _ in proxies.values():
                await load(port, **warm)
            for _ in range(ROUNDS):
                for name, (port, pid) in proxies.items():
                    before = cpu_s(pid)
                    await load(port, **what)
                    used[name] += cpu_s(pid) - before
            server.close()
            for transport in tuple(connected):
                transport.abort()
            await asyncio.sleep(0)

    uvloop.run(measure())
    times = used["llmgw"] / used["nginx"]
    count = ROUNDS * what["clients"] * what["count"]
    sys.stdout.write(
        f"\nnginx {used['nginx'] / count * 1e6:.0f} us, llmgw {used['llmgw'] / count * 1e6:.0f} us "
        f"for each of {count} answers: {times:.2f} x\n"
    )
    return times


def test_request_costs_a_few_times_what_it_costs_nginx(proxies, engine_port):
    what = {"clients": CLIENTS, "body": BODY, "end": BODY[-32:], "count": REQUESTS // CLIENTS}
    times = ratio(proxies, engine_port, warm={**what, "count": 20}, what=what)
    assert times < MOST_FOR_A_REQUEST


def test_token_of_a_slow_stream_costs_about_what_it_costs_nginx(proxies, engine_port):
    what = {"clients": STREAMS, "body": STREAM_BODY, "end": b"0\r\n\r\n", "count": 1}
    times = ratio(proxies, engine_port, warm=what, what=what)
    assert times < MOST_FOR_A_TOKEN
