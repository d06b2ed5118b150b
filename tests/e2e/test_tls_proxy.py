"""The proxy of ``docs/operate/tls.md`` works as it is written there, streams included."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from llmgw.rpc import authority
from tests.fakes.engines import free_port

ROOT = Path(__file__).resolve().parents[2]
NGINX = shutil.which("nginx")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed; .ci/run installs it"),
]


@pytest.fixture
def proxy(tmp_path, start_sim):
    """Start the example in front of a sim engine; its port and a client that trusts it."""
    engine = start_sim("sim", ttft_ms=10, tpot_ms=50, tokens=10)
    port = free_port()
    authority.init_ca(tmp_path / "ca", now=time.time())
    issued = authority.issue_server(
        tmp_path / "ca", out=tmp_path / "tls", name="localhost", hosts=[], now=time.time()
    )
    config = tmp_path / "nginx.conf"
    config.write_text(
        example()
        .replace("listen 443", f"listen 127.0.0.1:{port}")
        .replace("/etc/llmgw/tls/fullchain.pem", str(issued.cert))
        .replace("/etc/llmgw/tls/privkey.pem", str(issued.key))
        .replace("http://127.0.0.1:8080", engine.url)
        .join([f"pid {tmp_path}/pid; events {{}} http {{ access_log off;\n", "}\n"])
    )
    words = [NGINX, "-p", tmp_path, "-e", tmp_path / "errors", "-c", config]
    process = subprocess.Popen([*words, "-g", "daemon off; master_process off;"])
    trust = ssl.create_default_context(cafile=str(issued.ca))
    with httpx.Client(base_url=f"https://localhost:{port}", verify=trust) as client:
        wait_until_it_answers(client)
        yield client
    process.terminate()
    process.wait(timeout=10)


def example():
    page = (ROOT / "docs" / "operate" / "tls.md").read_text()
    return re.search(r"^```nginx\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]


def wait_until_it_answers(client):
    deadline = time.monotonic() + 10
    while True:
        try:
            assert client.get("/health").status_code == 200
        except httpx.TransportError:
            assert time.monotonic() < deadline, "nginx did not start"
            time.sleep(0.05)
        else:
            return


def test_an_answer_comes_through_tls(proxy):
    answer = proxy.post("/v1/chat/completions", json=question(stream=False))
    assert answer.status_code == 200
    assert answer.json()["choices"]


def test_tokens_come_when_they_are_made_and_not_in_lumps(proxy):
    with proxy.stream("POST", "/v1/chat/completions", json=question(stream=True)) as answer:
        lines = ((line, time.monotonic()) for line in answer.iter_lines())
        arrivals = [at for line, at in lines if line.startswith("data: {")]
    assert len(arrivals) >= 10
    assert arrivals[-1] - arrivals[0] > 0.3


def question(*, stream):
    return {"model": "sim", "stream": stream, "messages": [{"role": "user", "content": "Hello"}]}
